"""U-Net 3D in Flax NNX. Attributes carry the canonical names.

Volumes and activations are channels last (NDHWC). `types` are the keyword arguments that every
layer takes: `dtype` to compute in, `param_dtype` of the weights, and `rngs`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax import Array
from jax.typing import DTypeLike

from framebench.models.flax_blocks import Remat, recompute_nothing
from framebench.models.unet3d.spec import UNetConfig


class PlaneConv(nnx.Conv):
    """A 3-D convolution as one 2-D convolution of every plane.

    The channels of a plane hold those of the planes above and below too. XLA:CPU has no fast path
    for 3-D convolutions with few channels, least of all for the gradient of a strided one; for 2-D
    ones it has. The price is memory: the input of each convolution is kept once per plane of the
    kernel.
    """

    def __call__(self, x: Array) -> Array:  # type: ignore[override]  # never sharded
        """Map (batch, d, h, w, cin) to (batch, d / stride, h / stride, w / stride, cout)."""
        x, kernel = self.promote_dtype((x, self.kernel[...]), dtype=self.dtype)
        batch, d, h, w, _ = x.shape
        k = kernel.shape[0]
        stride = self.strides
        assert isinstance(stride, int)
        padding = (k // 2, k // 2)  # of one axis, before and after
        padded = jnp.pad(x, ((0, 0), padding, (0, 0), (0, 0), (0, 0)))
        # the planes that lie under each plane of the kernel: k times (batch, d / stride, h, w, cin)
        under_kernel = [padded[:, i : i + d : stride] for i in range(k)]
        planes = jnp.concatenate(under_kernel, -1)
        # from (k, k, k, cin, cout), its depth first, to (k, k, k x cin, cout)
        kernel = jnp.moveaxis(kernel, 0, 2).reshape(k, k, -1, kernel.shape[-1])
        y = jax.lax.conv_general_dilated(
            planes.reshape(-1, h, w, planes.shape[-1]),
            kernel,
            window_strides=(stride, stride),
            padding=(padding, padding),
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        y = y.reshape(batch, d // stride, *y.shape[1:])
        if self.bias is None:
            return y
        return y + self.bias[...].astype(y.dtype)


class MatmulUpsample(nnx.ConvTranspose):
    """A transposed 2x2x2 convolution with stride 2 as one matmul.

    Every output voxel has a single input voxel, so a matmul is enough. XLA:CPU would run an
    ordinary convolution over the input, spread out with zeros. Flax's kernel is flipped.
    """

    def __call__(self, x: Array) -> Array:
        """Map (batch, d, h, w, cin) to (batch, 2 d, 2 h, 2 w, cout)."""
        assert self.bias is not None
        x, kernel, bias = self.promote_dtype(
            (x, self.kernel[...], self.bias[...]), dtype=self.dtype
        )
        batch, d, h, w, _ = x.shape
        y = jnp.einsum("bdhwi,xyzio->bdxhywzo", x, kernel[::-1, ::-1, ::-1])
        return y.reshape(batch, 2 * d, 2 * h, 2 * w, -1) + bias


class Convolutions(NamedTuple):
    """The classes that the model takes for its two kinds of convolution."""

    conv: type[nnx.Conv]
    upsample: type[nnx.ConvTranspose]


IN_3D = Convolutions(nnx.Conv, nnx.ConvTranspose)
IN_2D = Convolutions(PlaneConv, MatmulUpsample)


class Unit(nnx.Module):
    """Convolution, instance norm, ReLU."""

    def __init__(
        self, convolutions: Convolutions, cin: int, cout: int, stride: int = 1, **types: Any
    ) -> None:
        """Make the convolution and the norm."""
        kernel = (3, 3, 3)
        self.conv = convolutions.conv(cin, cout, kernel, stride, padding=1, use_bias=False, **types)
        self.norm = nnx.InstanceNorm(cout, epsilon=1e-5, **types)

    def __call__(self, x: Array) -> Array:
        """Map (batch, d, h, w, cin) to (batch, d / stride, h / stride, w / stride, cout)."""
        return nnx.relu(self.norm(self.conv(x)))


class Down(nnx.Module):
    """A level on the way down, whose first convolution may be strided."""

    def __init__(
        self, convolutions: Convolutions, cin: int, cout: int, stride: int, **types: Any
    ) -> None:
        """Make both units; the first has the stride."""
        self.unit1 = Unit(convolutions, cin, cout, stride, **types)
        self.unit2 = Unit(convolutions, cout, cout, **types)

    def __call__(self, x: Array) -> Array:
        """Map (batch, d, h, w, cin) to (batch, d / stride, h / stride, w / stride, cout)."""
        return self.unit2(self.unit1(x))


class Up(nnx.Module):
    """A level on the way up: the volume is upsampled and joined to the skip connection."""

    def __init__(self, convolutions: Convolutions, cin: int, cout: int, **types: Any) -> None:
        """Make the transposed convolution and both units."""
        self.upsample = convolutions.upsample(cin, cout, (2, 2, 2), 2, padding="VALID", **types)
        self.unit1 = Unit(convolutions, 2 * cout, cout, **types)
        self.unit2 = Unit(convolutions, cout, cout, **types)

    def __call__(self, x: Array, skip: Array) -> Array:
        """Map (batch, d, h, w, cin) to (batch, 2 d, 2 h, 2 w, cout), the shape of `skip`."""
        return self.unit2(self.unit1(jnp.concatenate((self.upsample(x), skip), -1)))


def run_block(block: Down | Up, *inputs: Array) -> Array:
    """Run a block: the function that `remat` wraps."""
    return block(*inputs)


class UNet3D(nnx.Module):
    """The whole network: levels down, levels up with skip connections, 1x1x1 convolution."""

    def __init__(
        self, config: UNetConfig, convolutions: Convolutions, remat: Remat, **types: Any
    ) -> None:
        """Make the levels down and up, and the head."""
        self.down = nnx.List(Down(convolutions, *level, **types) for level in config.levels_down)
        self.up = nnx.List(Up(convolutions, *level, **types) for level in config.levels_up)
        # The head computes in the type of the weights, if that is wider: in bfloat16 XLA:CPU would
        # sum the gradient of the bias over all voxels, and lose most of it.
        types["dtype"] = jnp.promote_types(types["dtype"], types["param_dtype"])
        channels = config.filters[0]
        self.head = convolutions.conv(channels, config.classes, (1, 1, 1), 1, padding=0, **types)
        self.remat = remat

    def __call__(self, x: Array) -> Array:
        """Map volumes (batch, d, h, w, channels) to logits (batch, d, h, w, classes)."""
        skips = []
        for i, down in enumerate(self.down):
            x = self.remat(i, run_block)(down, x)
            skips.append(x)
        skips.pop()  # the bottleneck's output is no skip connection
        for i, up in enumerate(self.up, len(self.down)):
            x = self.remat(i, run_block)(up, x, skips.pop())
        return self.head(x)


def build(
    config: UNetConfig,
    dtype: DTypeLike = jnp.float32,
    param_dtype: DTypeLike = jnp.float32,
    remat: Remat = recompute_nothing,
    rewrite: bool = False,
) -> UNet3D:
    """Build the model with Flax's own initial weights.

    `rewrite`: with 2-D convolutions and matmuls in the place of 3-D convolutions. To load other
    weights afterwards, build it within `nnx.eval_shape`, which computes none.
    """
    convolutions = IN_2D if rewrite else IN_3D
    rngs = nnx.Rngs(0)
    return UNet3D(config, convolutions, remat, dtype=dtype, param_dtype=param_dtype, rngs=rngs)


def loss(logits: Array, labels: Array) -> Array:
    """Return half the cross entropy and half (1 - Dice), as in MLPerf, in float32 or wider.

    Dice is per sample and class, then averaged.
    """
    logits = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    truth = jax.nn.one_hot(labels, logits.shape[-1], dtype=logits.dtype)
    probability = jax.nn.softmax(logits)
    overlap = (probability * truth).sum((1, 2, 3))
    dice = (2 * overlap + 1e-6) / ((probability + truth).sum((1, 2, 3)) + 1e-6)
    # from the one-hot labels: from their numbers it would scatter in the backward pass
    entropy = optax.softmax_cross_entropy(logits, truth).mean()
    return (entropy + (1 - dice).mean()) / 2
