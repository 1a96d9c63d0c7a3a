"""Jittor: the adapter, and the switches of its strategies.

There is one module of switches per module of `framebench/strategies`.
"""

from framebench.adapters import common
from framebench.adapters.base import collect_switches
from framebench.adapters.jittor import checkpoint, generation, memory, precision, scenarios, steps
from framebench.adapters.jittor.adapter import JittorAdapter

ADAPTER = JittorAdapter
SWITCHES = collect_switches((common, precision, checkpoint, steps, memory, scenarios, generation))
