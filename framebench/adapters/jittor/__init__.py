"""Jittor: the adapter, and the switches of its strategies from one module per room of the catalog."""

from framebench.adapters.jittor import generation, memory, precision, scenarios, steps
from framebench.adapters.jittor.adapter import JittorAdapter
from framebench.suite.case import Case

SWITCHES = precision.switch | steps.switch | memory.switch | scenarios.switch | generation.switch


def make(case: Case) -> JittorAdapter:
    return JittorAdapter(case, SWITCHES)
