"""Jittor: the adapter, and the switches of its strategies from one module per module of the catalog."""

from framebench.adapters import common
from framebench.adapters.jittor import checkpoint, generation, memory, precision, scenarios, steps
from framebench.adapters.jittor.adapter import JittorAdapter
from framebench.suite.case import Case

MODULES = (common, precision, checkpoint, steps, memory, scenarios, generation)
SWITCHES = {name: function for module in MODULES for name, function in module.switch.items()}


def make(case: Case) -> JittorAdapter:
    return JittorAdapter(case, SWITCHES)
