"""flaxmodels: ResNet-18, in Linen."""

import flaxmodels
import jax
import optax


def model():
    return flaxmodels.ResNet18(output="logits", pretrained=None, num_classes=10, normalize=False)


def batch(n):
    images, labels = jax.random.split(jax.random.key(0))
    return jax.random.normal(images, (n, 96, 96, 3)), jax.random.randint(labels, (n,), 0, 10)


def loss(output, target):
    return optax.softmax_cross_entropy_with_integer_labels(output, target).mean()


def optimizer():
    return optax.sgd(1e-2, momentum=0.9)
