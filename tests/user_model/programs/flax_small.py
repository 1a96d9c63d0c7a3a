import jax
from flax import nnx


class Small(nnx.Module):
    def __init__(self, rngs):
        self.first, self.second = nnx.Linear(6, 8, rngs=rngs), nnx.Linear(8, 3, rngs=rngs)

    def __call__(self, x):
        return self.second(jax.nn.relu(self.first(x)))


def model():
    return Small(nnx.Rngs(0))


def batch(n):
    return jax.random.normal(jax.random.key(0), (n, 6)), jax.random.normal(
        jax.random.key(1), (n, 3)
    )


def loss(output, target):
    return ((output - target) ** 2).mean()
