"""U-Net 3D in Jittor. Parameter names and layouts are the canonical ones.

On the CPU Jittor runs 2-D convolutions by oneDNN and 3-D ones as generated loops, some 20 times
slower. With `rewrite` the model computes the same by 2-D convolutions.
"""

from __future__ import annotations

from typing import NamedTuple

import jittor as jt
from jittor import Module, Var, nn

from framebench.models.unet3d.spec import UNetConfig


class PlanarConv(nn.Conv3d):
    """A 3x3x3 convolution with padding 1, as one 2-D convolution of every plane.

    Each plane is convolved with the kernel's three slices at once, as three times the output
    channels, and the results are added one plane apart. Measured against one 2-D convolution per
    slice and against three times the input channels it is the fastest, and it keeps the least for
    the backward pass.
    """

    def execute(self, x: Var) -> Var:
        """Map (batch, cin, d, h, w) to (batch, cout, d / stride, h / stride, w / stride)."""
        batch, cin, d, h, w = x.shape
        cout = self.out_channels
        stride = self.stride[0]
        kernel = self.weight.permute(2, 0, 1, 3, 4)  # the number of the slice comes first
        kernel = kernel.reshape(3 * cout, cin, 3, 3)
        planes = x.transpose(0, 2, 1, 3, 4)  # (batch, d, cin, h, w)
        planes = planes.reshape(batch * d, cin, h, w)
        planes = nn.conv2d(planes, kernel, None, stride, 1)
        height, width = planes.shape[2:]
        planes = planes.reshape(batch, d, 3, cout, height, width)
        shape = [batch, cout, (d - 1) // stride + 1, height, width]
        shifted = []
        for k in range(3):
            # planes outside the volume are zero: `reindex` fills what lies out of range
            index = ["i0", f"i2*{stride}+{k}-1", f"{k}", "i1", "i3", "i4"]
            shifted.append(planes.reindex(shape, index))
        below, here, above = shifted
        return below + here + above


class PointConv(nn.Conv3d):
    """A 1x1x1 convolution as a 1x1 convolution over planes laid side by side."""

    def execute(self, x: Var) -> Var:
        """Map (batch, cin, d, h, w) to (batch, cout, d, h, w)."""
        batch, cin, d, h, w = x.shape
        y = nn.conv2d(x.reshape(batch, cin, d * h, w), self.weight.squeeze(-1), self.bias)
        return y.reshape(batch, self.out_channels, d, h, w)


class PlanarUpsample(nn.ConvTranspose3d):
    """A transposed 2x2x2 convolution with stride 2: a matmul per voxel, then depth to space."""

    def execute(self, x: Var) -> Var:
        """Map (batch, cin, d, h, w) to (batch, cout, 2 d, 2 h, 2 w)."""
        batch, cin, d, h, w = x.shape
        cout = self.out_channels
        kernel = self.weight.reshape(cin, -1).transpose(1, 0)
        kernel = kernel.reshape(-1, cin, 1, 1)  # (cout x 8, cin, 1, 1)
        y = nn.conv2d(x.reshape(batch, cin, d * h, w), kernel)
        y = y.reshape(batch, cout, 2, 2, 2, d, h, w)
        y = y.permute(0, 1, 5, 2, 6, 3, 7, 4)  # (batch, cout, d, 2, h, 2, w, 2)
        y = y.reshape(batch, cout, 2 * d, 2 * h, 2 * w)
        return y + self.bias.broadcast(y, [0, 2, 3, 4])


class Convolutions(NamedTuple):
    """The classes that the model takes for its three kinds of convolution."""

    unit: type[nn.Conv3d]
    head: type[nn.Conv3d]
    upsample: type[nn.ConvTranspose3d]


IN_3D = Convolutions(nn.Conv3d, nn.Conv3d, nn.ConvTranspose3d)
IN_2D = Convolutions(PlanarConv, PointConv, PlanarUpsample)


class Unit(Module):
    """Convolution, instance norm, ReLU."""

    def __init__(self, convolutions: Convolutions, cin: int, cout: int, stride: int = 1) -> None:
        """Make the convolution and the norm."""
        self.conv = convolutions.unit(cin, cout, 3, stride, padding=1, bias=False)
        self.norm = nn.InstanceNorm3d(cout, affine=True)

    def execute(self, x: Var) -> Var:
        """Map (batch, cin, d, h, w) to (batch, cout, d / stride, h / stride, w / stride)."""
        return nn.relu(self.norm(self.conv(x)))


class Down(Module):
    """A level on the way down, whose first convolution may be strided."""

    def __init__(self, convolutions: Convolutions, cin: int, cout: int, stride: int) -> None:
        """Make both units; the first has the stride."""
        self.unit1 = Unit(convolutions, cin, cout, stride)
        self.unit2 = Unit(convolutions, cout, cout)

    def execute(self, x: Var) -> Var:
        """Map (batch, cin, d, h, w) to (batch, cout, d / stride, h / stride, w / stride)."""
        return self.unit2(self.unit1(x))


class Up(Module):
    """A level on the way up: the volume is upsampled and joined to the skip connection."""

    def __init__(self, convolutions: Convolutions, cin: int, cout: int) -> None:
        """Make the transposed convolution and both units."""
        self.upsample = convolutions.upsample(cin, cout, 2, 2)
        self.unit1 = Unit(convolutions, 2 * cout, cout)
        self.unit2 = Unit(convolutions, cout, cout)

    def execute(self, x: Var, skip: Var) -> Var:
        """Map (batch, cin, d, h, w) to (batch, cout, 2 d, 2 h, 2 w), the shape of `skip`."""
        return self.unit2(self.unit1(jt.concat((self.upsample(x), skip), 1)))


def run_plainly(block: Module, *inputs: Var) -> Var:
    """Run a block itself: nothing is recomputed in the backward pass."""
    return block(*inputs)


class UNet3D(Module):
    """The whole network: levels down, levels up with skip connections, 1x1x1 convolution."""

    def __init__(self, config: UNetConfig, convolutions: Convolutions) -> None:
        """Make the levels down and up, and the head."""
        self.down = nn.ModuleList([Down(convolutions, *level) for level in config.levels_down])
        self.up = nn.ModuleList([Up(convolutions, *level) for level in config.levels_up])
        self.head = convolutions.head(config.filters[0], config.classes, 1)
        # the checkpoint strategy replaces it by a function that recomputes the block
        self.block_runner = run_plainly

    def execute(self, x: Var) -> Var:
        """Map volumes (batch, channels, d, h, w) to logits (batch, classes, d, h, w)."""
        skips = []
        for block in self.down:
            x = self.block_runner(block, x)
            skips.append(x)
        # the bottleneck's output, the last, is no skip connection
        for block, skip in zip(self.up, reversed(skips[:-1])):
            x = self.block_runner(block, x, skip)
        return self.head(x)


def build(config: UNetConfig, rewrite: bool = False) -> Module:
    """Build the model with Jittor's own initial weights, with `rewrite` by 2-D convolutions."""
    return UNet3D(config, IN_2D if rewrite else IN_3D)


def blocks_of(model: Module) -> list[Module]:
    """Return the blocks that checkpointing recomputes."""
    return [module for module in model.modules() if isinstance(module, (Down, Up))]


def sum_space(x: Var) -> Var:
    """Sum over all voxels: (batch, classes, d, h, w) to (batch, classes).

    Rows come first: Jittor adds term by term, and one long float32 sum loses two digits.
    """
    return x.sum(4).sum(3).sum(2)


def loss(logits: Var, labels: Var) -> Var:
    """Return half the cross entropy and half (1 - Dice), as in MLPerf.

    Dice is per sample and class, then averaged.
    """
    truth = (labels.unsqueeze(1).broadcast(logits) == logits.index(1)).float32()
    log_probability = nn.log_softmax(logits, 1)
    probability = log_probability.exp()
    overlap = sum_space(probability * truth)
    dice = (2 * overlap + 1e-6) / (sum_space(probability + truth) + 1e-6)
    cross_entropy = -sum_space(log_probability * truth).sum() / labels.numel()
    return (cross_entropy + (1 - dice).mean()) / 2
