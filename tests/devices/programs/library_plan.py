"""A function of JAX's, planned by the public library. Printed as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import jax
import jax.numpy as jnp

from framebench.devices import DoesNotFit, plan

WIDTH = 1024


def update(weights: jax.Array, batch: jax.Array) -> jax.Array:
    """One step of gradient descent on a linear layer."""

    def loss(weights: jax.Array) -> jax.Array:
        return jnp.mean((batch @ weights) ** 2)

    return weights - 0.1 * jax.grad(loss)(weights)


def describe(**options: Any) -> dict[str, Any]:
    """Return the plan for an H100; the arguments are shapes alone."""
    shapes = [jax.ShapeDtypeStruct((WIDTH, WIDTH), jnp.float32)] * 2
    planned = plan(update, shapes, "h100-80gb", **options)
    return asdict(planned) | {"needs": planned.needs}


def describe_refusal() -> str:
    """Return how a function ends whose argument is 2 TiB, and its result 4 TiB."""
    shape = jax.ShapeDtypeStruct((2**20, 2**19), jnp.float32)
    try:
        plan(lambda a: a @ a.T, [shape], "h100-80gb")
    except DoesNotFit as error:
        return f"DoesNotFit: {str(error)[:80]}"
    return "fits"


print(
    json.dumps(
        {
            "kept": describe(),
            "donated": describe(donate_argnums=0),
            "refusal": describe_refusal(),
        }
    )
)
