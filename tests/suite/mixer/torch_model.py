"""The mixer in PyTorch: `build`, `blocks_of` and `loss` are what framebench asks for."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from framebench.models.mixer.spec import Config
from torch import Tensor, nn


class Mixing(nn.Module):
    def __init__(self, c: Config, features: int, bias: bool = True) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(c.width)
        self.fc1 = nn.Linear(features, 2 * features)
        self.fc2 = nn.Linear(2 * features, features, bias)

    def mixed(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.tokens = Mixing(c, c.patches, bias=False)
        self.channels = Mixing(c, c.width)

    def forward(self, x: Tensor) -> Tensor:  # (batch, patches, width) -> the same
        x = x + self.tokens.mixed(self.tokens.norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels.mixed(self.channels.norm(x))


class Mixer(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.embed = nn.Linear(3 * c.patch**2, c.width)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.blocks))
        self.norm = nn.LayerNorm(c.width)
        self.head = nn.Linear(c.width, c.classes)
        self.block_runner = lambda block, x: block(
            x
        )  # how a block is run: checkpointing replaces this

    # (batch, patches, 3 x patch x patch) -> (batch, classes)
    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        for block in self.blocks:
            x = self.block_runner(block, x)
        return self.head(self.norm(x).mean(1))


def build(c: Config) -> nn.Module:
    return Mixer(c)


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """The units of checkpointing."""
    return [m for m in model.modules() if isinstance(m, Block)]


def loss(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits if logits.dtype == torch.float64 else logits.float(), labels)
