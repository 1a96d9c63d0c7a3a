import json
import sys

from framebench import adapters
from framebench.suite.selectors import parse

found = {}
for name, case, code in json.loads(sys.argv[1]):
    adapter = adapters.load(parse(case))
    adapter.build()
    exec(code)
    adapter.step()
    effect = adapter.judge_effect()
    found[name] = [effect.proven, str(effect.evidence)]
print(json.dumps(found))
