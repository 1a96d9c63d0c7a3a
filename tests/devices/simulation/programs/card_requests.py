"""Requests of four simulated steps on an H200 for blocks of the large pool, of each case named:
action, bytes, address. Printed as JSON.
"""

import json
import sys

from framebench.devices.catalog import find
from framebench.devices.simulation.blocks import SMALL
from framebench.devices.simulation.torch_plan import step_of
from framebench.devices.simulation.torch_simulate import simulate
from framebench.suite.hypothetical import parse_any_batch

ACTIONS = ("alloc", "free_requested")


def requests(case: str) -> list[tuple[str, int, int]]:
    trace = simulate(
        step_of(parse_any_batch(case)), find("h200-141gb"), steps=4, release=(2, 11)
    ).allocator.trace
    return [
        (one.action, one.size, one.address)
        for one in trace
        if one.action in ACTIONS and one.size > SMALL
    ]


print(json.dumps({case: requests(case) for case in sys.argv[1:]}))
