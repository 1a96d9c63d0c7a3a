"""ResNet-50 v1.5 in Flax NNX. Attributes carry the canonical names; images and activations are channels last (NHWC)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import optax
from flax import nnx
from jax import Array

from framebench.models.flax_blocks import Remat, as_it_is
from framebench.models.resnet50.spec import Config, blocks


def conv(cin: int, cout: int, k: int, stride: int, groups: int = 1, **types: Any) -> nnx.Conv:
    """Padded on both sides by k // 2: Flax's "SAME" would pad a strided convolution on one side only."""
    return nnx.Conv(cin, cout, (k, k), stride, padding=k // 2, feature_group_count=groups, use_bias=False, **types)


def norm(channels: int, **types: Any) -> nnx.BatchNorm:
    """Flax's momentum is the weight of the past: 0.9 is PyTorch's 0.1."""
    return nnx.BatchNorm(channels, momentum=0.9, epsilon=1e-5, **types)


class Bottleneck(nnx.Module):
    def __init__(self, cin: int, inner: int, cout: int, stride: int, groups: int, **types: Any) -> None:
        self.conv1 = conv(cin, inner, 1, 1, **types)
        self.bn1 = norm(inner, **types)
        self.conv2 = conv(inner, inner, 3, stride, groups, **types)
        self.bn2 = norm(inner, **types)
        self.conv3 = conv(inner, cout, 1, 1, **types)
        self.bn3 = norm(cout, **types)
        projected = stride != 1 or cin != cout
        self.downsample = nnx.List([conv(cin, cout, 1, stride, **types), norm(cout, **types)] if projected else [])

    def __call__(self, x: Array) -> Array:  # (batch, h, w, cin) -> (batch, h / stride, w / stride, cout)
        shortcut = x
        for layer in self.downsample:
            shortcut = layer(shortcut)
        y = nnx.relu(self.bn1(self.conv1(x)))
        y = nnx.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return nnx.relu(y + shortcut)


def run(block: Bottleneck, x: Array) -> Array:
    return block(x)


class ResNet(nnx.Module):
    def __init__(self, c: Config, remat: Remat, **types: Any) -> None:
        self.conv1 = conv(3, c.width, 7, 2, **types)
        self.bn1 = norm(c.width, **types)
        self.stages = tuple(f"layer{i + 1}" for i in range(len(c.depths)))
        for stage in self.stages:
            rows = [row for row in blocks(c) if row[0].startswith(stage)]
            setattr(self, stage, nnx.List(Bottleneck(i, n, n * c.expansion, s, c.groups_of(n), **types) for _, i, n, s in rows))
        self.fc = nnx.Linear(c.width * 2 ** (len(c.depths) - 1) * c.expansion, c.classes, **types)
        self.remat = remat

    def __call__(self, x: Array) -> Array:  # (batch, image, image, 3) -> (batch, classes)
        x = nnx.relu(self.bn1(self.conv1(x)))
        x = nnx.max_pool(x, (3, 3), (2, 2), ((1, 1), (1, 1)))
        for i, block in enumerate(block for stage in self.stages for block in getattr(self, stage)):
            x = self.remat(i, run)(block, x)
        return self.fc(x.mean((1, 2)))


def build(c: Config, dtype: Any = jnp.float32, param_dtype: Any = jnp.float32, remat: Remat = as_it_is) -> ResNet:
    """With Flax's own initialisers; `nnx.eval_shape` of it costs nothing where other weights follow."""
    return ResNet(c, remat, dtype=dtype, param_dtype=param_dtype, rngs=nnx.Rngs(0))


def loss(logits: Array, labels: Array) -> Array:
    """Mean cross entropy, in float32 or wider."""
    wide = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    return optax.softmax_cross_entropy_with_integer_labels(wide, labels).mean()
