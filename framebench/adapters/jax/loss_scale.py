"""Scale the loss of a float16 step, so that small gradients do not become zero.

The scale is dynamic, as in PyTorch's GradScaler; optax has none.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from framebench.adapters.jax.accumulation import Tree


class ScaledState(NamedTuple):
    """An optimizer's state, with the scale of the loss."""

    inner: Tree
    scale: Array  # float32, of shape ()
    steps: Array  # since the scale last changed; int32, of shape ()


def with_loss_scale(
    optimizer: optax.GradientTransformation,
    start: float,
    growth: int = 2000,
) -> optax.GradientTransformation:
    """Return an optimizer that takes gradients of a loss which was multiplied by its scale.

    The scale is `start` at first. A step whose gradient overflows changes no weight and halves the
    scale; `growth` steps in a row without an overflow double it.
    """

    def init(params: Tree) -> ScaledState:
        return ScaledState(optimizer.init(params), jnp.float32(start), jnp.int32(0))

    def update(
        scaled_grads: Tree, state: ScaledState, params: Tree = None
    ) -> tuple[Tree, ScaledState]:
        grads = jax.tree.map(lambda grad: grad / state.scale, scaled_grads)
        has_no_overflow = are_finite(grads)
        new_updates, new_inner = optimizer.update(grads, state.inner, params)
        # compiled code has no branches: both results are computed, and one is selected
        updates = select(has_no_overflow, new_updates, jax.tree.map(jnp.zeros_like, new_updates))
        inner = select(has_no_overflow, new_inner, state.inner)
        scale, steps = update_scale(state.scale, state.steps, has_no_overflow, growth)
        return updates, ScaledState(inner, scale, steps)

    # optax types every state as a tree of arrays
    return optax.GradientTransformation(init, update)  # type: ignore[arg-type]


def are_finite(grads: Tree) -> Array:
    """Return whether every number of all gradients is finite, as a boolean of shape ()."""
    of_leaves = [jnp.isfinite(grad).all() for grad in jax.tree.leaves(grads)]
    return jnp.all(jnp.array(of_leaves))


def select(condition: Array, chosen: Tree, otherwise: Tree) -> Tree:
    """Return the first tree where the condition holds, and else the second."""
    return jax.tree.map(lambda one, other: jnp.where(condition, one, other), chosen, otherwise)


def update_scale(
    scale: Array, steps: Array, has_no_overflow: Array, growth: int
) -> tuple[Array, Array]:
    """Return the scale of the next step, and the steps since it last changed."""
    must_grow = steps + 1 == growth
    without_overflow = jnp.where(must_grow, 2 * scale, scale)
    new_scale = jnp.where(has_no_overflow, without_overflow, scale / 2)
    new_steps = jnp.where(has_no_overflow & ~must_grow, steps + 1, 0)
    return new_scale, new_steps
