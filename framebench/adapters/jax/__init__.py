"""JAX with Flax NNX and optax: the adapter, and the switches of its strategies from one module per module of the catalog."""

from framebench.adapters import common
from framebench.adapters.jax import checkpoint, memory, offload, precision, scenarios, steps
from framebench.adapters.jax.adapter import JaxAdapter
from framebench.suite.case import Case

MODULES = (common, precision, checkpoint, steps, offload, memory, scenarios)
SWITCHES = {name: function for module in MODULES for name, function in module.switch.items()}


def make(case: Case) -> JaxAdapter:
    return JaxAdapter(case, SWITCHES)
