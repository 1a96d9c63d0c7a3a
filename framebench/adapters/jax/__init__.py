"""JAX with Flax NNX and optax: the adapter, and the switches of its strategies from one module per room of the catalog."""

from framebench.adapters.jax import generation, memory, offload, precision, ranks, scenarios, steps
from framebench.adapters.jax.adapter import JaxAdapter
from framebench.suite.case import Case

SWITCHES = (
    precision.switch | steps.switch | offload.switch | memory.switch | scenarios.switch | generation.switch | ranks.switch
)


def make(case: Case) -> JaxAdapter:
    return JaxAdapter(case, SWITCHES)
