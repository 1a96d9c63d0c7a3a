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
        """Return the updates and the next state; all updates are zero if a gradient overflows."""
        grads = jax.tree.map(lambda grad: grad / state.scale, scaled_grads)
        finite_leaves = [jnp.isfinite(grad).all() for grad in jax.tree.leaves(grads)]
        is_finite = jnp.all(jnp.array(finite_leaves))

        # compiled code has no branches: both results are computed, and one is selected
        def select(if_finite: Array, if_overflow: Array) -> Array:
            return jnp.where(is_finite, if_finite, if_overflow)

        new_updates, new_inner = optimizer.update(grads, state.inner, params)
        no_updates = jax.tree.map(jnp.zeros_like, new_updates)
        updates = jax.tree.map(select, new_updates, no_updates)
        inner = jax.tree.map(select, new_inner, state.inner)

        steps = state.steps + 1
        must_grow = steps == growth
        grown_scale = jnp.where(must_grow, 2 * state.scale, state.scale)
        scale = select(grown_scale, state.scale / 2)
        steps_at_scale = jnp.where(is_finite & ~must_grow, steps, 0)
        return updates, ScaledState(inner, scale, steps_at_scale)

    # optax types every state as a tree of arrays
    return optax.GradientTransformation(init, update)  # type: ignore[arg-type]
