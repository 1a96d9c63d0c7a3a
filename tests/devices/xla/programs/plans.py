"""What XLA plans for each `CASE@DEVICE`, all in one process; a device may have another memory, as
in `CASE@h100-80gb@1000000`.
"""

import json
import sys
from dataclasses import asdict, replace

import jax

from framebench.devices.catalog import find
from framebench.devices.xla.jax_plan import plan
from framebench.suite.hypothetical import parse_any_batch

jax.config.update("jax_platforms", "cpu")
answers = []
for place in sys.argv[1:]:
    case, name, *memory = place.split("@")
    device = find(name)
    if memory:
        device = replace(device, memory_bytes=int(memory[0]))
    answers.append(asdict(plan(parse_any_batch(case), device)))
print(json.dumps(answers))
