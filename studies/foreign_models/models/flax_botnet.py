"""bottleneck-transformer-flax: convolutions and attention, in Linen."""

import jax
import optax
from bottleneck_transformer_flax import BoTNet, BoTNetConfig


def model():
    return BoTNet(BoTNetConfig(stage_sizes=[1, 1, 1, 1], num_classes=10))


def batch(n):
    images, labels = jax.random.split(jax.random.key(0))
    return jax.random.normal(images, (n, 96, 96, 3)), jax.random.randint(labels, (n,), 0, 10)


def loss(output, target):
    return optax.softmax_cross_entropy_with_integer_labels(output, target).mean()
