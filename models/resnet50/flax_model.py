"""ResNet-50 v1.5 in Flax NNX. Attributes carry the canonical names.

Images and activations are channels last (NHWC). `types` are the keyword arguments that every layer
takes: `dtype` to compute in, `param_dtype` of the weights, and `rngs`.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import optax
from flax import nnx
from jax import Array
from jax.typing import DTypeLike

from framebench.models.flax_blocks import Remat, recompute_nothing
from framebench.models.resnet50.spec import ResNetConfig, list_blocks


def make_conv(
    cin: int, cout: int, kernel: int, stride: int, groups: int = 1, **types: Any
) -> nnx.Conv:
    """Build a convolution without bias, padded as PyTorch pads it: on both sides.

    Flax's "SAME" would pad a strided convolution on one side only.
    """
    return nnx.Conv(
        cin,
        cout,
        (kernel, kernel),
        stride,
        padding=kernel // 2,
        feature_group_count=groups,
        use_bias=False,
        **types,
    )


def make_norm(channels: int, **types: Any) -> nnx.BatchNorm:
    """Build a batch norm. Flax's momentum is the weight of the past: 0.9 is PyTorch's 0.1."""
    return nnx.BatchNorm(channels, momentum=0.9, epsilon=1e-5, **types)


class Bottleneck(nnx.Module):
    """A residual block of a 1x1, a 3x3 and a 1x1 convolution, each with batch norm."""

    def __init__(
        self, cin: int, inner: int, cout: int, stride: int, groups: int, **types: Any
    ) -> None:
        """Make the layers; `inner` are the channels of the 3x3 convolution."""
        self.conv1 = make_conv(cin, inner, 1, 1, **types)
        self.bn1 = make_norm(inner, **types)
        self.conv2 = make_conv(inner, inner, 3, stride, groups, **types)
        self.bn2 = make_norm(inner, **types)
        self.conv3 = make_conv(inner, cout, 1, 1, **types)
        self.bn3 = make_norm(cout, **types)
        projection: list[nnx.Conv | nnx.BatchNorm] = []
        if stride != 1 or cin != cout:
            projection = [make_conv(cin, cout, 1, stride, **types), make_norm(cout, **types)]
        self.downsample = nnx.List(projection)

    def __call__(self, x: Array) -> Array:
        """Map (batch, h, w, cin) to (batch, h / stride, w / stride, cout)."""
        shortcut = x
        for layer in self.downsample:
            shortcut = layer(shortcut)
        y = nnx.relu(self.bn1(self.conv1(x)))
        y = nnx.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return nnx.relu(y + shortcut)


def run_block(block: Bottleneck, x: Array) -> Array:
    """Run a block: the function that `remat` wraps."""
    return block(x)


class ResNet(nnx.Module):
    """The whole network: stem, stages of bottleneck blocks, mean over the image, linear layer."""

    def __init__(self, config: ResNetConfig, remat: Remat, **types: Any) -> None:
        """Make the stem, the blocks and the linear layer."""
        self.conv1 = make_conv(3, config.width, 7, 2, **types)
        self.bn1 = make_norm(config.width, **types)
        self.stages = tuple(config.stages)
        for stage in self.stages:
            blocks = []
            for shape in list_blocks(config):
                if shape.stage == stage:
                    channels = shape.cin, shape.inner, shape.cout
                    blocks.append(Bottleneck(*channels, shape.stride, shape.groups, **types))
            setattr(self, stage, nnx.List(blocks))
        self.fc = nnx.Linear(config.features, config.classes, **types)
        self.remat = remat

    def __call__(self, x: Array) -> Array:
        """Map images (batch, image, image, 3) to logits (batch, classes)."""
        x = nnx.relu(self.bn1(self.conv1(x)))
        x = nnx.max_pool(x, (3, 3), (2, 2), ((1, 1), (1, 1)))
        blocks = [block for stage in self.stages for block in getattr(self, stage)]
        for i, block in enumerate(blocks):
            x = self.remat(i, run_block)(block, x)
        return self.fc(x.mean((1, 2)))


def build(
    config: ResNetConfig,
    dtype: DTypeLike = jnp.float32,
    param_dtype: DTypeLike = jnp.float32,
    remat: Remat = recompute_nothing,
) -> ResNet:
    """Build the model with Flax's own initial weights.

    Within `nnx.eval_shape`, before other weights are loaded, these cost nothing.
    """
    return ResNet(config, remat, dtype=dtype, param_dtype=param_dtype, rngs=nnx.Rngs(0))


def loss(logits: Array, labels: Array) -> Array:
    """Return the mean cross entropy, in float32 or wider."""
    wide = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    return optax.softmax_cross_entropy_with_integer_labels(wide, labels).mean()
