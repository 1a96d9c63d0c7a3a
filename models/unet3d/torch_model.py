"""U-Net 3D in PyTorch. Parameter names and layouts are the canonical ones."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from framebench.models.unet3d.spec import UNetConfig


class Unit(nn.Module):
    """Convolution, instance norm, ReLU."""

    def __init__(self, cin: int, cout: int, stride: int = 1) -> None:
        """Make the convolution, the norm and the ReLU."""
        super().__init__()
        self.conv = nn.Conv3d(cin, cout, 3, stride, padding=1, bias=False)
        self.norm = nn.InstanceNorm3d(cout, affine=True)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, cin, d, h, w) to (batch, cout, d / stride, h / stride, w / stride)."""
        return self.relu(self.norm(self.conv(x)))


class Down(nn.Module):
    """A level on the way down, whose first convolution may be strided."""

    def __init__(self, cin: int, cout: int, stride: int) -> None:
        """Make both units; the first has the stride."""
        super().__init__()
        self.unit1 = Unit(cin, cout, stride)
        self.unit2 = Unit(cout, cout)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, cin, d, h, w) to (batch, cout, d / stride, h / stride, w / stride)."""
        return self.unit2(self.unit1(x))


class Up(nn.Module):
    """A level on the way up: the volume is upsampled and joined to the skip connection."""

    def __init__(self, cin: int, cout: int) -> None:
        """Make the transposed convolution and both units."""
        super().__init__()
        self.upsample = nn.ConvTranspose3d(cin, cout, 2, 2)
        self.unit1 = Unit(2 * cout, cout)
        self.unit2 = Unit(cout, cout)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        """Map (batch, cin, d, h, w) to (batch, cout, 2 d, 2 h, 2 w), the shape of `skip`."""
        return self.unit2(self.unit1(torch.cat((self.upsample(x), skip), 1)))


def run_plainly(block: nn.Module, *inputs: Tensor) -> Tensor:
    """Run a block itself: nothing is recomputed in the backward pass."""
    return block(*inputs)


class UNet3D(nn.Module):
    """The whole network: levels down, levels up with skip connections, 1x1x1 convolution."""

    def __init__(self, config: UNetConfig) -> None:
        """Make the levels down and up, and the head."""
        super().__init__()
        self.down = nn.ModuleList(Down(*level) for level in config.levels_down)
        self.up = nn.ModuleList(Up(*level) for level in config.levels_up)
        self.head = nn.Conv3d(config.filters[0], config.classes, 1)
        # the checkpoint strategy replaces it by a function that recomputes the block
        self.block_runner = run_plainly

    def forward(self, x: Tensor) -> Tensor:
        """Map volumes (batch, channels, d, h, w) to logits (batch, classes, d, h, w)."""
        skips = []
        for block in self.down:
            x = self.block_runner(block, x)
            skips.append(x)
        # the bottleneck's output, the last, is no skip connection
        for block, skip in zip(self.up, reversed(skips[:-1])):
            x = self.block_runner(block, x, skip)
        return self.head(x)


def build(config: UNetConfig) -> nn.Module:
    """Build the model with PyTorch's own initial weights."""
    return UNet3D(config)


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """Return the blocks that checkpointing recomputes."""
    return [module for module in model.modules() if isinstance(module, (Down, Up))]


def loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return half the cross entropy and half (1 - Dice), as in MLPerf, in float32 or wider.

    Dice is per sample and class, then averaged.
    """
    if logits.dtype != torch.float64:
        logits = logits.float()
    truth = F.one_hot(labels, logits.shape[1])  # (batch, d, h, w, classes)
    truth = truth.movedim(-1, 1).to(logits.dtype)
    probability = logits.softmax(1)
    overlap = (probability * truth).sum((2, 3, 4))
    dice = (2 * overlap + 1e-6) / ((probability + truth).sum((2, 3, 4)) + 1e-6)
    return (F.cross_entropy(logits, labels) + (1 - dice).mean()) / 2
