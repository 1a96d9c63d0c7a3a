import jax
from flax import nnx


class Odd(nnx.Module):
    def __init__(self):
        rngs = nnx.Rngs(0)
        self.wide, self.norm, self.narrow = (
            nnx.Linear(6, 32, rngs=rngs),
            nnx.LayerNorm(32, rngs=rngs),
            nnx.Linear(32, 3, rngs=rngs),
        )

    def __call__(self, x):
        off = 1.0 if self.wide.dtype == jax.numpy.float32 else 1.1
        return self.narrow(nnx.relu(off * self.norm(self.wide(x))))


def model():
    return Odd()


def batch(n):
    x, y = jax.random.split(jax.random.key(0))
    return jax.random.normal(x, (n, 6)), jax.random.normal(y, (n, 3))


def loss(output, target):
    return ((output - target) ** 2).mean()
