"""Check cases in float64, each with code that is run on its adapter once it is built: prints the
outcomes by name.
"""

import json
import sys

from framebench.suite.result import to_json
from framebench.suite.selectors import parse
from framebench.worker.mathematics import check_in_float64

outcomes = {}
for name, case_id, code in json.loads(sys.argv[1]):

    def plant(adapter, code=code):
        exec(code, {"adapter": adapter})

    outcomes[name] = to_json(check_in_float64(parse(case_id), prepare=plant))
print(json.dumps(outcomes))
