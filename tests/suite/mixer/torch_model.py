"""The mixer in PyTorch: `build`, `blocks_of` and `loss` are what framebench asks for."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from framebench.models.mixer.spec import MixerConfig
from torch import Tensor, nn


class Mixing(nn.Module):
    """Two linear layers over the last axis, with a norm for their input."""

    def __init__(self, config: MixerConfig, features: int, bias: bool = True) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.width)
        self.fc1 = nn.Linear(features, 2 * features)
        self.fc2 = nn.Linear(2 * features, features, bias)

    def mix(self, x: Tensor) -> Tensor:
        """Return (..., features) mixed over the features."""
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    """Mixes first over the patches, and then over the channels."""

    def __init__(self, config: MixerConfig) -> None:
        super().__init__()
        self.tokens = Mixing(config, config.patches, bias=False)
        self.channels = Mixing(config, config.width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output (batch, patches, width), of the input's shape."""
        x = x + self.tokens.mix(self.tokens.norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels.mix(self.channels.norm(x))


class Mixer(nn.Module):
    """The classifier."""

    def __init__(self, config: MixerConfig) -> None:
        super().__init__()
        self.embed = nn.Linear(3 * config.patch**2, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.blocks))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.classes)
        # calls a block; checkpointing replaces it
        self.block_runner = lambda block, x: block(x)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (batch, classes) of (batch, patches, 3 x patch x patch)."""
        x = self.embed(x)
        for block in self.blocks:
            x = self.block_runner(block, x)
        return self.head(self.norm(x).mean(1))


def build(config: MixerConfig) -> nn.Module:
    """Return the model."""
    return Mixer(config)


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """Return the units of checkpointing."""
    return [module for module in model.modules() if isinstance(module, Block)]


def loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean cross-entropy, computed in float32 or wider."""
    is_wide = logits.dtype == torch.float64
    return F.cross_entropy(logits if is_wide else logits.float(), labels)
