"""Gradient accumulation in JAX: a loop over micro-batches inside the step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

Tree = Any  # nested dictionaries of arrays
# (parameters, statistics, constants, x, y) -> (loss, statistics), gradient
Gradient = Callable[[Tree, Tree, Tree, Tree, Tree], tuple[tuple[Array, Tree], Tree]]


def average_over_micro_batches(gradient: Gradient, count: int, samples: int) -> Gradient:
    """Return a function that takes a batch of `samples` and calls `gradient` for `count` parts.

    It returns the mean loss and the mean gradient. The running statistics pass from one micro-batch
    to the next.
    """

    def split_array(array: Array) -> Array | None:
        """Return an array as (count, samples, ...), and None for one without an axis of samples."""
        if jnp.shape(array)[:1] != (samples,):
            return None
        return array.reshape(count, -1, *array.shape[1:])

    def choose(whole: Array, part: Array | None) -> Array:
        # an array without an axis of samples, such as a mask, is whole in each micro-batch
        return whole if part is None else part

    def add_share(mean: Array, value: Array) -> Array:
        return mean + value / count

    def average_gradient(
        params: Tree, stats: Tree, constants: Tree, x: Tree, y: Tree
    ) -> tuple[tuple[Array, Tree], Tree]:
        """Return the mean loss and the mean gradient of all parts of the batch."""

        def add_micro_batch(carry: Tree, parts: Tree) -> tuple[Tree, None]:
            mean_loss, stats, mean_grads = carry
            micro_x, micro_y = jax.tree.map(choose, (x, y), parts)
            (loss, stats), grads = gradient(params, stats, constants, micro_x, micro_y)
            mean_loss = add_share(mean_loss, loss)
            mean_grads = jax.tree.map(add_share, mean_grads, grads)
            return (mean_loss, stats, mean_grads), None

        no_loss = jnp.zeros((), jnp.result_type(*jax.tree.leaves(params)))
        no_grads = jax.tree.map(jnp.zeros_like, params)
        start = (no_loss, stats, no_grads)
        micro_batches = jax.tree.map(split_array, (x, y))
        # lax.scan compiles the step of one micro-batch, and loops over the micro-batches
        (mean_loss, stats, mean_grads), _ = lax.scan(add_micro_batch, start, micro_batches)
        return (mean_loss, stats), mean_grads

    return average_gradient
