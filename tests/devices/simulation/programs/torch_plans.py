"""What `torch_plan` tells of cases on devices, named CASE@DEVICE. Printed as JSON."""

import json
import sys

from framebench.devices.catalog import find
from framebench.devices.simulation.torch_plan import plan
from framebench.suite.hypothetical import named

print(json.dumps({asked: plan(named(asked.split("@")[0]), find(asked.split("@")[1])) for asked in sys.argv[1:]}))
