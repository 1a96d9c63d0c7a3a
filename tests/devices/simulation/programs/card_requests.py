"""The allocator's events in four simulated steps on an H200, of each case named: action, bytes,
address. Printed as JSON.
"""

import json
import sys

from framebench.devices.catalog import find
from framebench.devices.simulation.torch_plan import make_step_builder
from framebench.devices.simulation.torch_simulate import simulate
from framebench.suite.hypothetical import parse_any_batch

events = {}
for case in sys.argv[1:]:
    step = make_step_builder(parse_any_batch(case))
    simulation = simulate(step, find("h200-141gb"), steps=4, release=(2, 11))
    trace = simulation.watch.allocator.trace
    events[case] = [(event.action, event.size, event.address) for event in trace]
print(json.dumps(events))
