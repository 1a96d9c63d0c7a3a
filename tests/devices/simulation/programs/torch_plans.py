"""What `torch_plan` answers for cases on devices, named CASE@DEVICE. Printed as JSON."""

import json
import sys
from dataclasses import asdict

from framebench.devices.catalog import find
from framebench.devices.simulation.torch_plan import plan
from framebench.suite.hypothetical import parse_any_batch

answers = {}
for place in sys.argv[1:]:
    case, device = place.split("@")
    answers[place] = asdict(plan(parse_any_batch(case), find(device)))
print(json.dumps(answers))
