"""A dynamic loss scale, which optax has none of: without it small gradients in float16 are zero."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from framebench.adapters.jax.accumulation import Tree


class Scaled(NamedTuple):
    """An optimizer's state, with the factor on the loss and the steps since it last changed."""

    inner: Tree
    scale: Array
    steady: Array


def with_loss_scale(
    optimizer: optax.GradientTransformation,
    start: float,
    growth: int = 2000,
) -> optax.GradientTransformation:
    """Return an optimizer that takes gradients of a loss which was multiplied by a scale.

    A step whose gradient overflows changes no weight and halves the scale. `growth` other steps in
    a row double it.
    """

    def init(params: Tree) -> Scaled:
        return Scaled(optimizer.init(params), jnp.float32(start), jnp.int32(0))

    def update(updates: Tree, state: Any, params: Tree = None) -> tuple[Tree, Scaled]:
        grads = jax.tree.map(lambda grad: grad / state.scale, updates)
        finite_leaves = [jnp.isfinite(grad).all() for grad in jax.tree.leaves(grads)]
        is_finite = jnp.all(jnp.array(finite_leaves))
        updates, inner = optimizer.update(grads, state.inner, params)
        updates = jax.tree.map(lambda update: jnp.where(is_finite, update, 0), updates)
        inner = jax.tree.map(lambda new, old: jnp.where(is_finite, new, old), inner, state.inner)
        is_steady = state.steady + 1 == growth
        grown_scale = jnp.where(is_steady, 2 * state.scale, state.scale)
        scale = jnp.where(is_finite, grown_scale, state.scale / 2)
        steady = jnp.where(is_finite & ~is_steady, state.steady + 1, 0)
        return updates, Scaled(inner, scale, steady)

    return optax.GradientTransformation(init, update)
