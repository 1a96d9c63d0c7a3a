"""Print what a record says was saved for the backward pass, and what the account finds, by case."""

import json
import sys

from framebench import adapters
from framebench.explain.torch_account import StorageAccount
from framebench.suite.selectors import parse

sizes = {}
for case in sys.argv[1:]:
    adapter = adapters.load(parse(case))
    adapter.build()
    adapter.step()
    observed = adapter.observe()["activation_bytes"]
    adapter.release()
    with StorageAccount(adapter) as storages:
        adapter.step()
    saved = [value for value in storages.account.values if value.kind == "saved for backward"]
    most_saved = 0
    for event in range(storages.account.events):
        most_saved = max(most_saved, sum(value.size for value in saved if value.is_alive(event)))
    sizes[case] = observed, most_saved
print(json.dumps(sizes))
