"""An MLP mixer (Tolstikhin et al.

2021), as a user would add it: in a folder of their own, in PyTorch alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from framebench.models.layer import Layer, Switches
from framebench.models.spec import Optimizer, Param, Preset, Workload


@dataclass(frozen=True)
class Config:
    image: int = 32  # pixels, square
    patch: int = 4
    width: int = 64  # channels
    blocks: int = 4
    classes: int = 10

    @property
    def patches(self) -> int:
        return (self.image // self.patch) ** 2


def params(c: Config) -> Iterator[Param]:
    """A bias after the mixing of patches would be the same for all channels, which every norm
    subtracts.
    """
    yield from linear("embed", 3 * c.patch**2, c.width)
    for i in range(c.blocks):
        for part, features in (("tokens", c.patches), ("channels", c.width)):
            yield from norm(f"blocks.{i}.{part}.norm", c.width)
            yield from linear(f"blocks.{i}.{part}.fc1", features, 2 * features)
            yield from linear(
                f"blocks.{i}.{part}.fc2", 2 * features, features, bias=part == "channels"
            )
    yield from norm("norm", c.width)
    yield from linear("head", c.width, c.classes)


def norm(name: str, features: int) -> Iterator[Param]:
    yield Param(f"{name}.weight", (features,), std=0.2, value=1.0)
    yield Param(f"{name}.bias", (features,), std=0.2)


def linear(name: str, cin: int, cout: int, bias: bool = True) -> Iterator[Param]:
    yield Param(f"{name}.weight", (cout, cin), std=cin**-0.5)
    if bias:
        yield Param(f"{name}.bias", (cout,), std=0.1)


def inputs(c: Config, batch: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Patches (batch, patches, 3 x patch x patch) float32 and labels (batch,) int64."""
    return rng.standard_normal((batch, c.patches, 3 * c.patch**2), np.float32), rng.integers(
        0, c.classes, batch
    )


def layers(c: Config, switches: Switches) -> Iterator[Layer]:
    """The input of every norm, product and GELU. Each mixing sees all patches and all channels."""
    whole = c.patches * c.width
    yield Layer("embed", 0, output=whole)
    for i in range(c.blocks):
        for part in ("tokens", "channels"):
            b = f"blocks.{i}.{part}"
            yield Layer(f"{b}.norm", whole, is_block_input=part == "tokens")
            yield Layer(f"{b}.fc1", whole, output=2 * whole)
            yield Layer(f"{b}.gelu", 2 * whole)
            yield Layer(f"{b}.fc2", 2 * whole, output=whole)
    yield Layer("norm", whole)
    yield Layer("head", c.width, output=c.classes)
    yield Layer("logits", c.classes)


WORKLOAD = Workload(
    name="mixer",
    title="MLP mixer",
    unit="samples",
    optimizer=Optimizer("adamw", lr=1e-3),
    sizes={
        "tiny": Preset(Config(image=16, width=16, blocks=2), (4, 8), base=4),
        "cpu": Preset(Config(), (8, 16), base=8),
    },
    params=params,
    inputs=inputs,
    couples_samples=False,
    layers=layers,
)
