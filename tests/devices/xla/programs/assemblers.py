"""Plans with XLA's own assembler and optimized kernels, and with neither. Printed as JSON."""

import json
import sys

import jax

from framebench.devices.catalog import find
from framebench.devices.xla import jax_plan
from framebench.suite.case import Case

jax.config.update("jax_platforms", "cpu")
make_toolkit = jax_plan.make_toolkit
parts = {}
for place in sys.argv[1:]:
    case, device = place.split("@")
    both = []
    for make in (make_toolkit, lambda folder: {}):
        jax_plan.make_toolkit = make
        both.append(jax_plan.plan(Case.from_id(case), find(device)).parts)
    parts[place] = both
print(json.dumps(parts))
