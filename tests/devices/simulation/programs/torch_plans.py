"""What `torch_plan` answers for cases on devices, named CASE@DEVICE or CASE@DEVICE@RELEASE: with
the rules of a release of PyTorch, which it is told to be. Printed as JSON.
"""

import json
import sys
from dataclasses import asdict

import torch

from framebench.devices.catalog import find
from framebench.devices.simulation.torch_plan import plan
from framebench.suite.hypothetical import parse_any_batch

answers = {}
installed = torch.__version__
for place in sys.argv[1:]:
    case, device, *release = place.split("@")
    torch.__version__ = release[0] if release else installed
    answers[place] = asdict(plan(parse_any_batch(case), find(device)))
print(json.dumps(answers))
