import json
import sys

from framebench import adapters
from framebench.explain.torch_account import Labelled
from framebench.suite.selectors import parse

found = {}
for case in sys.argv[1:]:
    adapter = adapters.load(parse(case))
    adapter.build()
    adapter.step()
    counted = adapter.observe()["activation_bytes"]
    adapter.release()
    with Labelled(adapter) as storages:
        adapter.step()
    saved = [v for v in storages.account.values if v.kind == "saved for backward"]
    found[case] = counted, max(sum(v.size for v in saved if v.is_alive(event)) for event in range(storages.account.events))
print(json.dumps(found))
