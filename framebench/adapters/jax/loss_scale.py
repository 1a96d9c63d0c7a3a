"""A dynamic loss scale, which optax has none of: without it small gradients in float16 become zero."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

Tree = Any  # nested dictionaries of arrays


class Scaled(NamedTuple):
    """An optimizer's state, with the factor on the loss and the steps since it last changed."""

    inner: Tree
    scale: Array
    steady: Array


def with_loss_scale(optimizer: optax.GradientTransformation, start: float, growth: int = 2000) -> optax.GradientTransformation:
    """The gradient divided by the scale. An overflow halves the scale, the step is left out; `growth` good ones double it."""

    def init(params: Tree) -> Scaled:
        return Scaled(optimizer.init(params), jnp.float32(start), jnp.int32(0))

    def update(updates: Tree, state: Any, params: Tree = None) -> tuple[Tree, Scaled]:
        grads = jax.tree.map(lambda g: g / state.scale, updates)
        finite = jnp.all(jnp.array([jnp.isfinite(g).all() for g in jax.tree.leaves(grads)]))
        updates, inner = optimizer.update(grads, state.inner, params)
        updates = jax.tree.map(lambda u: jnp.where(finite, u, 0), updates)
        inner = jax.tree.map(lambda new, old: jnp.where(finite, new, old), inner, state.inner)
        grown = state.steady + 1 == growth
        scale = jnp.where(finite, jnp.where(grown, 2 * state.scale, state.scale), state.scale / 2)
        return updates, Scaled(inner, scale, jnp.where(finite & ~grown, state.steady + 1, 0))

    return optax.GradientTransformation(init, update)
