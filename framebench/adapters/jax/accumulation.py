"""Gradient accumulation in JAX: a loop over micro-batches inside the step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from framebench.suite.trees import samples

Tree = Any  # nested dictionaries of arrays
# (parameters, statistics, constants, x, y) -> (loss, statistics), gradient
Gradient = Callable[[Tree, Tree, Tree, Tree, Tree], tuple[tuple[Array, Tree], Tree]]


def accumulated(gradient: Gradient, k: int) -> Gradient:
    """The same over k micro-batches in a loop: mean loss and gradient; the running statistics pass from one to the next."""

    def over_micro_batches(params: Tree, stats: Tree, constants: Tree, x: Tree, y: Tree) -> tuple[tuple[Array, Tree], Tree]:
        rows, (arrays, structure) = samples(x), jax.tree.flatten((x, y))
        of_samples = [jnp.shape(a)[:1] == (rows,) for a in arrays]  # others, such as a mask for all, go with each

        def micro(carry: tuple[Array, Tree, Tree], parts: list[Array]) -> tuple[tuple[Array, Tree, Tree], None]:
            loss, stats, total = carry
            left = iter(parts)
            xy = jax.tree.unflatten(structure, [next(left) if moves else a for a, moves in zip(arrays, of_samples)])
            (value, stats), grads = gradient(params, stats, constants, *xy)
            return (loss + value / k, stats, jax.tree.map(lambda t, g: t + g / k, total, grads)), None

        micro_batches = [a.reshape(k, -1, *a.shape[1:]) for a, moves in zip(arrays, of_samples) if moves]
        start = (jnp.zeros((), jnp.result_type(*jax.tree.leaves(params))), stats, jax.tree.map(jnp.zeros_like, params))
        (loss, stats, grads), _ = lax.scan(micro, start, micro_batches)
        return (loss, stats), grads

    return over_micro_batches
