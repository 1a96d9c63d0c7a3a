"""U-Net 3D in Flax NNX. Attributes carry the canonical names; volumes and activations are channels last (NDHWC)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax import Array

from framebench.models.flax_blocks import Remat, as_it_is
from framebench.models.unet3d.spec import Config


class PlaneConv(nnx.Conv):
    """The 3-D convolution as one 2-D convolution over planes, whose channels hold the planes above and below too.

    XLA:CPU has no fast path for 3-D convolutions with few channels, least of all for the gradient of a strided one; for
    2-D ones it has. The price is memory: the input of each convolution is kept once per plane of the kernel.
    """

    def __call__(self, x: Array) -> Array:  # type: ignore[override]  # never sharded
        x, kernel = self.promote_dtype((x, self.kernel[...]), dtype=self.dtype)
        (b, d, _, _, _), k, s = x.shape, kernel.shape[0], self.strides
        assert isinstance(s, int)
        padded = jnp.pad(x, ((0, 0), (k // 2, k // 2), (0, 0), (0, 0), (0, 0)))
        planes = jnp.concatenate([padded[:, i : i + d : s] for i in range(k)], -1)  # (b, d / s, h, w, k cin)
        kernel = jnp.moveaxis(kernel, 0, 2).reshape(k, k, -1, kernel.shape[-1])
        flat, edge, layout = planes.reshape(-1, *planes.shape[2:]), (k // 2, k // 2), ("NHWC", "HWIO", "NHWC")
        y = jax.lax.conv_general_dilated(flat, kernel, (s, s), (edge, edge), dimension_numbers=layout)
        y = y.reshape(b, d // s, *y.shape[1:])
        return y if self.bias is None else y + self.bias[...].astype(y.dtype)


class ProductUpsample(nnx.ConvTranspose):
    """The 2x2x2 transposed convolution with stride 2 as one product: every output voxel has a single input voxel.

    XLA:CPU runs a transposed convolution as one over an input spread out with zeros. Flax's kernel is flipped.
    """

    def __call__(self, x: Array) -> Array:
        assert self.bias is not None
        x, kernel, bias = self.promote_dtype((x, self.kernel[...], self.bias[...]), dtype=self.dtype)
        b, d, h, w, _ = x.shape
        y = jnp.einsum("bdhwi,xyzio->bdxhywzo", x, kernel[::-1, ::-1, ::-1])
        return y.reshape(b, 2 * d, 2 * h, 2 * w, -1) + bias


class Unit(nnx.Module):
    """Convolution, instance norm, ReLU."""

    def __init__(self, cin: int, cout: int, stride: int, rewrite: bool, **types: Any) -> None:
        layer = PlaneConv if rewrite else nnx.Conv
        self.conv = layer(cin, cout, (3, 3, 3), stride, padding=1, use_bias=False, **types)
        self.norm = nnx.InstanceNorm(cout, epsilon=1e-5, **types)

    def __call__(self, x: Array) -> Array:  # (batch, d, h, w, cin) -> (batch, d / stride, ..., cout)
        return nnx.relu(self.norm(self.conv(x)))


class Down(nnx.Module):
    def __init__(self, cin: int, cout: int, stride: int, rewrite: bool, **types: Any) -> None:
        self.unit1 = Unit(cin, cout, stride, rewrite, **types)
        self.unit2 = Unit(cout, cout, 1, rewrite, **types)

    def __call__(self, x: Array) -> Array:
        return self.unit2(self.unit1(x))


class Up(nnx.Module):
    def __init__(self, cin: int, cout: int, rewrite: bool, **types: Any) -> None:
        layer = ProductUpsample if rewrite else nnx.ConvTranspose
        self.upsample = layer(cin, cout, (2, 2, 2), 2, padding="VALID", **types)
        self.unit1 = Unit(2 * cout, cout, 1, rewrite, **types)
        self.unit2 = Unit(cout, cout, 1, rewrite, **types)

    def __call__(self, x: Array, skip: Array) -> Array:  # skip: twice the edge of x
        return self.unit2(self.unit1(jnp.concatenate((self.upsample(x), skip), -1)))


def run(block: Down | Up, *xs: Array) -> Array:
    return block(*xs)


class UNet3D(nnx.Module):
    def __init__(self, c: Config, remat: Remat, rewrite: bool, **types: Any) -> None:
        levels = zip((c.channels, *c.filters), c.filters, strict=False)
        self.down = nnx.List(Down(i, o, 1 if n == 0 else 2, rewrite, **types) for n, (i, o) in enumerate(levels))
        up = c.filters[::-1]
        self.up = nnx.List(Up(i, o, rewrite, **types) for i, o in zip(up, up[1:], strict=False))
        # as wide as the weights: XLA:CPU would sum the bias's gradient over all voxels in bfloat16, and lose most of it
        types["dtype"] = jnp.promote_types(types["dtype"], types["param_dtype"])
        self.head = (PlaneConv if rewrite else nnx.Conv)(c.filters[0], c.classes, (1, 1, 1), 1, padding=0, **types)
        self.remat = remat

    def __call__(self, x: Array) -> Array:  # (batch, d, h, w, channels) -> (batch, d, h, w, classes)
        skips = []
        for i, block in enumerate(self.down):
            x = self.remat(i, run)(block, x)
            skips.append(x)
        for i, (up, skip) in enumerate(zip(self.up, skips[-2::-1], strict=True), len(self.down)):
            x = self.remat(i, run)(up, x, skip)
        return self.head(x)


def build(
    c: Config, dtype: Any = jnp.float32, param_dtype: Any = jnp.float32, remat: Remat = as_it_is, rewrite: bool = False
) -> UNet3D:
    """With Flax's own initialisers; `nnx.eval_shape` of it costs nothing where other weights follow."""
    return UNet3D(c, remat, rewrite, dtype=dtype, param_dtype=param_dtype, rngs=nnx.Rngs(0))


def loss(logits: Array, labels: Array) -> Array:
    """Half cross entropy, half (1 - Dice), as in MLPerf; Dice per sample and class, then averaged."""
    logits = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    truth = jax.nn.one_hot(labels, logits.shape[-1], dtype=logits.dtype)
    probability = jax.nn.softmax(logits)
    overlap = (probability * truth).sum((1, 2, 3))
    dice = (2 * overlap + 1e-6) / ((probability + truth).sum((1, 2, 3)) + 1e-6)
    entropy = optax.softmax_cross_entropy(logits, truth).mean()  # by labels it would scatter in the backward pass
    return (entropy + (1 - dice).mean()) / 2
