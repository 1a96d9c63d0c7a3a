"""An MLP-Mixer (Tolstikhin et al. 2021) for small images in Flax NNX.

Try it by `framebench try examples/flax_mixer.py`.
"""

import jax
import optax
from flax import nnx

PATCHES, WIDTH = 64, 96


class MixerBlock(nnx.Module):
    def __init__(self, rngs):
        self.norm1, self.norm2 = nnx.LayerNorm(WIDTH, rngs=rngs), nnx.LayerNorm(WIDTH, rngs=rngs)
        self.tokens1, self.tokens2 = (
            nnx.Linear(PATCHES, 96, rngs=rngs),
            nnx.Linear(96, PATCHES, rngs=rngs),
        )
        self.channels1, self.channels2 = (
            nnx.Linear(WIDTH, 384, rngs=rngs),
            nnx.Linear(384, WIDTH, rngs=rngs),
        )

    def __call__(self, x):  # (batch, patches, width) -> the same
        y = self.norm1(x).swapaxes(1, 2)
        x = x + self.tokens2(nnx.gelu(self.tokens1(y))).swapaxes(1, 2)
        return x + self.channels2(nnx.gelu(self.channels1(self.norm2(x))))


class Mixer(nnx.Module):
    def __init__(self, rngs):
        self.stem = nnx.Conv(3, WIDTH, (4, 4), strides=4, rngs=rngs)
        self.blocks = nnx.List([MixerBlock(rngs) for _ in range(4)])
        self.norm, self.head = nnx.LayerNorm(WIDTH, rngs=rngs), nnx.Linear(WIDTH, 10, rngs=rngs)

    def __call__(self, images):  # (batch, 32, 32, 3) -> (batch, 10)
        x = self.stem(images).reshape(len(images), PATCHES, WIDTH)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


def model():
    return Mixer(nnx.Rngs(0))


def batch(n):
    images, labels = jax.random.split(jax.random.key(1))
    return jax.random.normal(images, (n, 32, 32, 3)), jax.random.randint(labels, (n,), 0, 10)


def loss(output, target):
    return optax.softmax_cross_entropy_with_integer_labels(output, target).mean()


def optimizer():
    return optax.adamw(1e-3)
