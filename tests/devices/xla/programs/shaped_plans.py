"""The CPU's plan of each case, from real arrays as the adapter makes them and from shapes alone."""

import json
import sys

from framebench import adapters
from framebench.adapters.jax.shaped import ShapedAdapter
from framebench.suite.hypothetical import parse_any_batch

plans = {}
for case_id in sys.argv[1:]:
    case = parse_any_batch(case_id)
    plans[case_id] = []
    for adapter in (adapters.load(case), ShapedAdapter(case)):
        adapter.build()
        adapter.compile()
        plans[case_id].append(adapter.program.plan)
print(json.dumps(plans))
