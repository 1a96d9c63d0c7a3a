"""ResNet-50 v1.5 in PyTorch. Parameter names and layouts are the canonical ones."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from framebench.models.resnet50.spec import ResNetConfig, list_blocks


class Bottleneck(nn.Module):
    """A residual block of a 1x1, a 3x3 and a 1x1 convolution, each with batch norm."""

    def __init__(self, cin: int, inner: int, cout: int, stride: int, groups: int) -> None:
        """Make the layers; `inner` are the channels of the 3x3 convolution."""
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
            projection = nn.Conv2d(cin, cout, 1, stride, bias=False)
            self.downsample = nn.Sequential(projection, nn.BatchNorm2d(cout))

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, cin, h, w) to (batch, cout, h / stride, w / stride)."""
        shortcut = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu(y + shortcut)


def run_plainly(block: nn.Module, x: Tensor) -> Tensor:
    """Run a block itself: nothing is recomputed in the backward pass."""
    return block(x)


class ResNet(nn.Module):
    """The whole network: stem, stages of bottleneck blocks, mean over the image, linear layer."""

    def __init__(self, config: ResNetConfig) -> None:
        """Make the stem, the blocks and the linear layer."""
        super().__init__()
        self.conv1 = nn.Conv2d(3, config.width, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(config.width)
        self.stages = config.stages
        for stage in self.stages:
            blocks = nn.Sequential()
            for shape in list_blocks(config):
                if shape.stage == stage:
                    blocks.append(
                        Bottleneck(shape.cin, shape.inner, shape.cout, shape.stride, shape.groups)
                    )
            setattr(self, stage, blocks)
        self.fc = nn.Linear(config.features, config.classes)
        # the checkpoint strategy replaces it by a function that recomputes the block
        self.block_runner = run_plainly

    def forward(self, x: Tensor) -> Tensor:
        """Map images (batch, 3, image, image) to logits (batch, classes)."""
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = F.max_pool2d(x, 3, 2, padding=1)
        for stage in self.stages:
            for block in getattr(self, stage):
                x = self.block_runner(block, x)
        return self.fc(x.mean((2, 3)))


def build(config: ResNetConfig) -> nn.Module:
    """Build the model with PyTorch's own initial weights."""
    return ResNet(config)


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """Return the blocks that checkpointing recomputes."""
    return [module for module in model.modules() if isinstance(module, Bottleneck)]


def loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean cross entropy, in float32 or wider."""
    return F.cross_entropy(logits if logits.dtype == torch.float64 else logits.float(), labels)
