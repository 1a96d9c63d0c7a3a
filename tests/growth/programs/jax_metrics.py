"""A loop in JAX that keeps the metrics of every step on the device."""

import jax
import jax.numpy as jnp


@jax.jit
def train_step(weights, x):
    def loss_of(weights):
        return (x @ weights).sum()

    loss, grads = jax.value_and_grad(loss_of)(weights)
    return weights - 0.1 * grads, {"loss": loss, "logits": x @ weights}


weights = jnp.ones((64, 64))
metrics = []
for number in range(1000):
    weights, metric = train_step(weights, jax.random.normal(jax.random.key(number), (32, 64)))
    metrics.append(metric)
