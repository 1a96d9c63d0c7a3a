import json

import jax.numpy as jnp
import optax

from framebench.adapters.jax.loss_scale import with_loss_scale

optimizer = with_loss_scale(optax.sgd(1.0, 0.9), 8.0, growth=2)
w = jnp.zeros(1)
state = optimizer.init(w)
seen = []
for gradient in (8.0, jnp.inf, 8.0, 8.0):
    update, state = optimizer.update(jnp.array([gradient]), state, w)
    w = optax.apply_updates(w, update)
    seen.append([float(w[0]), float(state.scale), float(state.inner[0].trace[0])])
print(json.dumps(seen))
