"""JAX with Flax NNX and optax: the adapter, and the switches of its strategies.

There is one module of switches per module of `framebench/strategies`.
"""

from framebench.adapters import common
from framebench.adapters.base import collect_switches
from framebench.adapters.jax import (
    checkpoint,
    generation,
    memory,
    offload,
    precision,
    scenarios,
    steps,
)
from framebench.adapters.jax.adapter import JaxAdapter

ADAPTER = JaxAdapter
SWITCHES = collect_switches(
    (common, precision, checkpoint, steps, offload, memory, scenarios, generation)
)
