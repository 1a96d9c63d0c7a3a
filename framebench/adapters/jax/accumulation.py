"""Gradient accumulation in JAX: a loop over micro-batches inside the step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from framebench.suite.trees import count_samples

Tree = Any  # nested dictionaries of arrays
# (parameters, statistics, constants, x, y) -> (loss, statistics), gradient
Gradient = Callable[[Tree, Tree, Tree, Tree, Tree], tuple[tuple[Array, Tree], Tree]]


def average_over_micro_batches(gradient: Gradient, count: int, samples: int = 0) -> Gradient:
    """Return a function that takes a whole batch and calls `gradient` for each of `count` parts.

    It returns the mean loss and the mean gradient. The running statistics pass from one micro-batch
    to the next. The batch has `samples` samples, by default as many as its first array.
    """

    def average_gradient(
        params: Tree,
        stats: Tree,
        constants: Tree,
        x: Tree,
        y: Tree,
    ) -> tuple[tuple[Array, Tree], Tree]:
        arrays, structure = jax.tree.flatten((x, y))
        batch_size = samples or count_samples(x)
        micro_batches = [split_array(array, batch_size, count) for array in arrays]

        def add_micro_batch(
            carry: tuple[Array, Tree, Tree],
            parts: list[Array | None],
        ) -> tuple[tuple[Array, Tree, Tree], None]:
            mean_loss, stats, mean_grads = carry
            chosen = [array if part is None else part for array, part in zip(arrays, parts)]
            micro_x, micro_y = jax.tree.unflatten(structure, chosen)
            (loss, stats), grads = gradient(params, stats, constants, micro_x, micro_y)
            mean_loss = mean_loss + loss / count
            mean_grads = jax.tree.map(lambda mean, grad: mean + grad / count, mean_grads, grads)
            return (mean_loss, stats, mean_grads), None

        no_loss = jnp.zeros((), jnp.result_type(*jax.tree.leaves(params)))
        no_grads = jax.tree.map(jnp.zeros_like, params)
        start = (no_loss, stats, no_grads)
        (loss, stats, grads), _ = lax.scan(add_micro_batch, start, micro_batches)
        return (loss, stats), grads

    return average_gradient


def split_array(array: Array, batch_size: int, count: int) -> Array | None:
    """Return an array of the batch as (count, samples, ...).

    Return None for one without an axis of samples, such as a mask for all of them: every
    micro-batch gets it whole.
    """
    if jnp.shape(array)[:1] != (batch_size,):
        return None
    return array.reshape(count, -1, *array.shape[1:])
