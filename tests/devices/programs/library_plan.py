"""A function of JAX's, planned by the public library. Printed as JSON."""

import json
from dataclasses import asdict

import jax
import jax.numpy as jnp

from framebench.devices import DoesNotFit, plan


def update(weights, batch):
    """Return the weights of a linear layer after a step of gradient descent."""

    def loss(weights):
        return jnp.mean((batch @ weights) ** 2)

    return weights - 0.1 * jax.grad(loss)(weights)


def describe(width, **options):
    """Return the plan for an H100, or why there is none; the arguments are shapes alone."""
    shapes = [jax.ShapeDtypeStruct((width, width), jnp.float32)] * 2
    try:
        planned = plan(update, shapes, "h100-80gb", **options)
    except DoesNotFit as error:
        return f"DoesNotFit: {error}"
    return asdict(planned) | {"needs": planned.needs}


print(
    json.dumps(
        {
            "kept": describe(1024),
            "donated": describe(1024, donate_argnums=0),
            "too large": describe(2**20),
        }
    )
)
