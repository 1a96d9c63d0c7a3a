"""ResNet-50 v1.5 in PyTorch. Parameter names and layouts are the canonical ones."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from framebench.models.resnet50.spec import Config, blocks


class Bottleneck(nn.Module):
    def __init__(self, cin: int, inner: int, cout: int, stride: int, groups: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(cin, inner, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride, padding=1, groups=groups, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3 = nn.Conv2d(inner, cout, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(cout)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or cin != cout:
            self.downsample = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x: Tensor) -> Tensor:  # (batch, cin, h, w) -> (batch, cout, h / stride, w / stride)
        shortcut = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu(y + shortcut)


class ResNet(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, c.width, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(c.width)
        self.stages = [f"layer{i + 1}" for i in range(len(c.depths))]
        for stage in self.stages:
            rows = [row for row in blocks(c) if row[0].startswith(stage)]
            setattr(self, stage, nn.Sequential(*(Bottleneck(i, n, n * c.expansion, s, c.groups_of(n)) for _, i, n, s in rows)))
        self.fc = nn.Linear(c.width * 2 ** (len(c.depths) - 1) * c.expansion, c.classes)
        self.remat = lambda block, x: block(x)  # how a block is run: checkpointing replaces this

    def forward(self, x: Tensor) -> Tensor:  # (batch, 3, image, image) -> (batch, classes)
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = F.max_pool2d(x, 3, 2, padding=1)
        for stage in self.stages:
            for block in getattr(self, stage):
                x = self.remat(block, x)
        return self.fc(x.mean((2, 3)))


def build(c: Config) -> nn.Module:
    return ResNet(c)


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """The units of checkpointing."""
    return [m for m in model.modules() if isinstance(m, Bottleneck)]


def loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross entropy, in float32 or wider."""
    return F.cross_entropy(logits if logits.dtype == torch.float64 else logits.float(), labels)
