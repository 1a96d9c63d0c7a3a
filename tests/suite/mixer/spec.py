"""Specify an MLP mixer (Tolstikhin et al. 2021), as a user would add it.

It lies in a folder of the user's own, and is written for PyTorch alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from framebench.models.layer import Layer, Switches
from framebench.models.spec import Optimizer, Param, Preset, Workload


@dataclass(frozen=True)
class MixerConfig:
    """The size of a mixer and of its images."""

    image: int = 32  # pixels, square
    patch: int = 4
    width: int = 64  # channels
    blocks: int = 4
    classes: int = 10

    @property
    def patches(self) -> int:
        """Return the number of patches of an image."""
        return (self.image // self.patch) ** 2


def make_params(config: MixerConfig) -> Iterator[Param]:
    """Yield every parameter.

    A bias after the mixing of patches would be the same for all channels, which every norm
    subtracts.
    """
    yield from make_linear("embed", 3 * config.patch**2, config.width)
    for i in range(config.blocks):
        for part, features in (("tokens", config.patches), ("channels", config.width)):
            yield from make_norm(f"blocks.{i}.{part}.norm", config.width)
            yield from make_linear(f"blocks.{i}.{part}.fc1", features, 2 * features)
            yield from make_linear(
                f"blocks.{i}.{part}.fc2", 2 * features, features, bias=part == "channels"
            )
    yield from make_norm("norm", config.width)
    yield from make_linear("head", config.width, config.classes)


def make_norm(name: str, features: int) -> Iterator[Param]:
    """Yield the parameters of a layer norm."""
    yield Param(f"{name}.weight", (features,), std=0.2, value=1.0)
    yield Param(f"{name}.bias", (features,), std=0.2)


def make_linear(name: str, cin: int, cout: int, bias: bool = True) -> Iterator[Param]:
    """Yield the parameters of a linear layer, from `cin` to `cout` features."""
    yield Param(f"{name}.weight", (cout, cin), std=cin**-0.5)
    if bias:
        yield Param(f"{name}.bias", (cout,), std=0.1)


def make_inputs(
    config: MixerConfig, batch: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return patches (batch, patches, 3 x patch x patch) float32 and labels (batch,) int64."""
    patches = rng.standard_normal((batch, config.patches, 3 * config.patch**2), np.float32)
    return patches, rng.integers(0, config.classes, batch)


def list_layers(config: MixerConfig, switches: Switches) -> Iterator[Layer]:
    """Yield the input of every norm, product and GELU: all patches and all channels."""
    whole = config.patches * config.width
    yield Layer("embed", 0, output=whole)
    for i in range(config.blocks):
        for part in ("tokens", "channels"):
            name = f"blocks.{i}.{part}"
            yield Layer(f"{name}.norm", whole, is_block_input=part == "tokens")
            yield Layer(f"{name}.fc1", whole, output=2 * whole)
            yield Layer(f"{name}.gelu", 2 * whole)
            yield Layer(f"{name}.fc2", 2 * whole, output=whole)
    yield Layer("norm", whole)
    yield Layer("head", config.width, output=config.classes)
    yield Layer("logits", config.classes)


WORKLOAD = Workload(
    name="mixer",
    title="MLP mixer",
    unit="samples",
    optimizer=Optimizer("adamw", lr=1e-3),
    sizes={
        "tiny": Preset(MixerConfig(image=16, width=16, blocks=2), (4, 8), base=4),
        "cpu": Preset(MixerConfig(), (8, 16), base=8),
    },
    params=make_params,
    inputs=make_inputs,
    couples_samples=False,
    has_convolutions=False,
    layers=list_layers,
)
