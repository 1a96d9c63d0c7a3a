import json
import sys

from framebench import adapters
from framebench.suite.selectors import parse
from framebench.worker import worker

adapter = adapters.load(parse(sys.argv[1]))
adapter.build()
_, observed = worker.first_steps(adapter)
effect = adapter.effect()
print(json.dumps({"verification": worker.verify(adapter, observed), "proven": effect.proven, "evidence": effect.evidence}))
