"""JAX with Flax NNX and optax: the adapter, and the switches of its strategies.

There is one module of switches per module of `framebench/strategies`.
"""

from framebench.adapters import common
from framebench.adapters.base import Switch, collect_switches
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
from framebench.suite.case import Case

MODULES = (common, precision, checkpoint, steps, offload, memory, scenarios, generation)
SWITCHES = collect_switches(MODULES)


def find_switches(case: Case) -> dict[str, Switch]:
    """Return the switches that the case can need, by the name in a row's `switch`."""
    if case.ranks == 1:
        return SWITCHES
    # imported here, since it would add to the memory and the start of every other case
    from framebench.adapters.jax import ranks

    return SWITCHES | ranks.switch.by_name


def make(case: Case) -> JaxAdapter:
    """Return the adapter of the case."""
    return JaxAdapter(case, find_switches(case))
