"""Jittor: the adapter, and the switches of its strategies from one module per room of the catalog."""

from framebench.adapters.jittor import checkpoint, generation, memory, precision, scenarios, steps
from framebench.adapters.jittor.adapter import JittorAdapter
from framebench.suite.case import Case

ROOMS = (precision, checkpoint, steps, memory, scenarios, generation)
SWITCHES = {name: function for room in ROOMS for name, function in room.switch.items()}


def make(case: Case) -> JittorAdapter:
    return JittorAdapter(case, SWITCHES)
