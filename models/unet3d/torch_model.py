"""U-Net 3D in PyTorch. Parameter names and layouts are the canonical ones."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from framebench.models.unet3d.spec import Config


class Unit(nn.Module):
    """Convolution, instance norm, ReLU."""

    def __init__(self, cin: int, cout: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv3d(cin, cout, 3, stride, padding=1, bias=False)
        self.norm = nn.InstanceNorm3d(cout, affine=True)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:  # (batch, cin, d, h, w) -> (batch, cout, d / stride, ...)
        return self.relu(self.norm(self.conv(x)))


class Down(nn.Module):
    def __init__(self, cin: int, cout: int, stride: int) -> None:
        super().__init__()
        self.unit1 = Unit(cin, cout, stride)
        self.unit2 = Unit(cout, cout)

    def forward(self, x: Tensor) -> Tensor:
        return self.unit2(self.unit1(x))


class Up(nn.Module):
    def __init__(self, cin: int, cout: int) -> None:
        super().__init__()
        self.upsample = nn.ConvTranspose3d(cin, cout, 2, 2)
        self.unit1 = Unit(2 * cout, cout)
        self.unit2 = Unit(cout, cout)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:  # skip: twice the edge of x
        return self.unit2(self.unit1(torch.cat((self.upsample(x), skip), 1)))


class UNet3D(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        levels = (c.channels, *c.filters)
        self.down = nn.ModuleList(Down(i, o, 1 if n == 0 else 2) for n, (i, o) in enumerate(zip(levels, c.filters)))
        up = c.filters[::-1]
        self.up = nn.ModuleList(Up(i, o) for i, o in zip(up, up[1:]))
        self.head = nn.Conv3d(c.filters[0], c.classes, 1)
        self.remat = lambda block, *xs: block(*xs)  # how a block is run: checkpointing replaces this

    def forward(self, x: Tensor) -> Tensor:  # (batch, channels, d, h, w) -> (batch, classes, d, h, w)
        skips = []
        for block in self.down:
            x = self.remat(block, x)
            skips.append(x)
        for block, skip in zip(self.up, skips[-2::-1]):
            x = self.remat(block, x, skip)
        return self.head(x)


def build(c: Config) -> nn.Module:
    return UNet3D(c)


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """The units of checkpointing."""
    return [m for m in model.modules() if isinstance(m, (Down, Up))]


def loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Half cross entropy, half (1 - Dice), as in MLPerf; Dice per sample and class, then averaged."""
    logits = logits if logits.dtype == torch.float64 else logits.float()
    truth = F.one_hot(labels, logits.shape[1]).movedim(-1, 1).to(logits.dtype)
    probability = logits.softmax(1)
    overlap = (probability * truth).sum((2, 3, 4))
    dice = (2 * overlap + 1e-6) / ((probability + truth).sum((2, 3, 4)) + 1e-6)
    return (F.cross_entropy(logits, labels) + (1 - dice).mean()) / 2
