"""Print weight, scale and momentum after each of four steps, the second of which overflows."""

import json

import jax.numpy as jnp
import optax

from framebench.adapters.jax.loss_scale import with_loss_scale

optimizer = with_loss_scale(optax.sgd(1.0, 0.9), start=8.0, growth=2)
weight = jnp.zeros(1)
state = optimizer.init(weight)
steps = []
for scaled_gradient in (8.0, jnp.inf, 8.0, 8.0):
    update, state = optimizer.update(jnp.array([scaled_gradient]), state, weight)
    weight = optax.apply_updates(weight, update)
    momentum = state.inner[0].trace
    steps.append(
        {
            "weight": float(weight[0]),
            "scale": float(state.scale),
            "momentum": float(momentum[0]),
        }
    )
print(json.dumps(steps))
