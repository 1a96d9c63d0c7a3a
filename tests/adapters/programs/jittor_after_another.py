"""Judge cases one after another in one process in which Python's collector never runs by itself.

So what an earlier case leaves behind in cycles is there for certain, not only now and then.
"""

import gc
import json
import sys

from framebench import adapters
from framebench.suite.selectors import parse

gc.set_threshold(0)
reasons = {}
for name in sys.argv[1:]:
    adapter = adapters.load(parse(name))
    adapter.build()
    adapter.step()
    reasons[name] = adapter.judge_effect().reason
print(json.dumps(reasons))
