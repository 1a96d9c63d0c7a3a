"""Jittor: the adapter, and the switches of its strategies.

There is one module of switches per module of `framebench/strategies`.
"""

from framebench.adapters import common
from framebench.adapters.base import collect_switches
from framebench.adapters.jittor import checkpoint, generation, memory, precision, scenarios, steps
from framebench.adapters.jittor.adapter import JittorAdapter
from framebench.suite.case import Case

MODULES = (common, precision, checkpoint, steps, memory, scenarios, generation)
SWITCHES = collect_switches(MODULES)


def make(case: Case) -> JittorAdapter:
    """Return the adapter of the case."""
    return JittorAdapter(case, SWITCHES)
