"""U-Net 3D in Jittor. Parameter names and layouts are the canonical ones.

On the CPU Jittor runs 2-D convolutions by oneDNN and 3-D ones as generated loops, some 20 times slower. `rewrite` says the
same mathematics in 2-D convolutions.
"""

from __future__ import annotations

from typing import NamedTuple

import jittor as jt
from jittor import Module, Var, nn

from framebench.models.unet3d.spec import Config


class PlanarConv(nn.Conv3d):
    """A 3x3x3 convolution with padding 1: each plane is convolved with the kernel's three slices at once, as three times the
    output channels, and the results are added one plane apart. Measured against one 2-D convolution per slice and against
    three times the input channels it is the fastest, and it keeps the least for the backward pass.
    """

    def execute(self, x: Var) -> Var:  # (batch, cin, d, h, w) -> (batch, cout, d / stride, ...)
        b, cin, d, h, w = x.shape
        cout, stride = self.out_channels, self.stride[0]
        kernel = self.weight.permute(2, 0, 1, 3, 4).reshape(3 * cout, cin, 3, 3)
        planes = nn.conv2d(x.transpose(0, 2, 1, 3, 4).reshape(b * d, cin, h, w), kernel, None, stride, 1)
        planes = planes.reshape(b, d, 3, cout, *planes.shape[2:])
        shape = [b, cout, (d - 1) // stride + 1, *planes.shape[4:]]
        # planes outside the volume are zero: `reindex` fills what lies out of range
        below, here, above = (planes.reindex(shape, ["i0", f"i2*{stride}+{k}-1", f"{k}", "i1", "i3", "i4"]) for k in range(3))
        return below + here + above


class PointConv(nn.Conv3d):
    """A 1x1x1 convolution as a 1x1 one."""

    def execute(self, x: Var) -> Var:
        b, c, d, h, w = x.shape
        y = nn.conv2d(x.reshape(b, c, d * h, w), self.weight.squeeze(-1), self.bias)
        return y.reshape(b, self.out_channels, d, h, w)


class PlanarUpsample(nn.ConvTranspose3d):
    """A transposed 2x2x2 convolution with stride 2: a product per voxel, then depth to space."""

    def execute(self, x: Var) -> Var:  # (batch, cin, d, h, w) -> (batch, cout, 2 d, 2 h, 2 w)
        b, cin, d, h, w = x.shape
        kernel = self.weight.reshape(cin, -1).transpose(1, 0).reshape(-1, cin, 1, 1)  # (cout x 8, cin, 1, 1)
        y = nn.conv2d(x.reshape(b, cin, d * h, w), kernel).reshape(b, self.out_channels, 2, 2, 2, d, h, w)
        y = y.permute(0, 1, 5, 2, 6, 3, 7, 4).reshape(b, self.out_channels, 2 * d, 2 * h, 2 * w)
        return y + self.bias.broadcast(y, [0, 2, 3, 4])


class Layers(NamedTuple):
    """Which classes do the three kinds of convolution."""

    conv: type[nn.Conv3d] = nn.Conv3d
    head: type[nn.Conv3d] = nn.Conv3d
    upsample: type[nn.ConvTranspose3d] = nn.ConvTranspose3d


class Unit(Module):
    """Convolution, instance norm, ReLU."""

    def __init__(self, layers: Layers, cin: int, cout: int, stride: int = 1) -> None:
        self.conv = layers.conv(cin, cout, 3, stride, padding=1, bias=False)
        self.norm = nn.InstanceNorm3d(cout, affine=True)

    def execute(self, x: Var) -> Var:  # (batch, cin, d, h, w) -> (batch, cout, d / stride, ...)
        return nn.relu(self.norm(self.conv(x)))


class Down(Module):
    def __init__(self, layers: Layers, cin: int, cout: int, stride: int) -> None:
        self.unit1 = Unit(layers, cin, cout, stride)
        self.unit2 = Unit(layers, cout, cout)

    def execute(self, x: Var) -> Var:
        return self.unit2(self.unit1(x))


class Up(Module):
    def __init__(self, layers: Layers, cin: int, cout: int) -> None:
        self.upsample = layers.upsample(cin, cout, 2, 2)
        self.unit1 = Unit(layers, 2 * cout, cout)
        self.unit2 = Unit(layers, cout, cout)

    def execute(self, x: Var, skip: Var) -> Var:  # skip: twice the edge of x
        return self.unit2(self.unit1(jt.concat((self.upsample(x), skip), 1)))


class UNet3D(Module):
    def __init__(self, c: Config, layers: Layers) -> None:
        levels = enumerate(zip((c.channels, *c.filters), c.filters))
        self.down = nn.ModuleList([Down(layers, i, o, 1 if n == 0 else 2) for n, (i, o) in levels])
        up = c.filters[::-1]
        self.up = nn.ModuleList([Up(layers, i, o) for i, o in zip(up, up[1:])])
        self.head = layers.head(c.filters[0], c.classes, 1)
        self.remat = lambda block, *xs: block(*xs)  # how a block is run: checkpointing replaces this

    def execute(self, x: Var) -> Var:  # (batch, channels, d, h, w) -> (batch, classes, d, h, w)
        skips = []
        for block in self.down:
            x = self.remat(block, x)
            skips.append(x)
        for block, skip in zip(self.up, skips[-2::-1]):
            x = self.remat(block, x, skip)
        return self.head(x)


def build(c: Config, rewrite: bool = False) -> Module:
    return UNet3D(c, Layers(PlanarConv, PointConv, PlanarUpsample) if rewrite else Layers())


def blocks_of(model: Module) -> list[Module]:
    """The units of checkpointing."""
    return [m for m in model.modules() if isinstance(m, (Down, Up))]


def over_space(x: Var) -> Var:  # (batch, classes, d, h, w) -> (batch, classes)
    """The sum over all voxels, rows first: Jittor adds term by term, and one long float32 sum loses two digits."""
    return x.sum(4).sum(3).sum(2)


def loss(logits: Var, labels: Var) -> Var:
    """Half cross entropy, half (1 - Dice), as in MLPerf; Dice per sample and class, then averaged."""
    truth = (labels.unsqueeze(1).broadcast(logits) == logits.index(1)).float32()
    log_probability = nn.log_softmax(logits, 1)
    probability = log_probability.exp()
    overlap = over_space(probability * truth)
    dice = (2 * overlap + 1e-6) / (over_space(probability + truth) + 1e-6)
    cross_entropy = -over_space(log_probability * truth).sum() / labels.numel()
    return (cross_entropy + (1 - dice).mean()) / 2
