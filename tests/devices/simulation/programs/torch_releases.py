"""What `torch_plan` tells of a case on a device where PyTorch says that it is each of these
releases. Printed as JSON.
"""

import json
import sys
from dataclasses import asdict

import torch

from framebench.devices.catalog import find
from framebench.devices.simulation import torch_plan
from framebench.suite.case import Case

result = {}
case, device, *releases = sys.argv[1:]
for release in releases:
    torch.__version__ = release
    result[release] = asdict(torch_plan.plan(Case.from_id(case), find(device)))
print(json.dumps(result))
