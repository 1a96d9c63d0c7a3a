"""ResNet-50 v1.5 (He et al. 2015; v1.5: the stride sits on the 3x3 convolution): 25,557,032 parameters at 1000 classes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from models.spec import Optimizer, Param, Preset, Workload


@dataclass(frozen=True)
class Config:
    image: int = 224  # pixels, square
    classes: int = 1000
    width: int = 64  # channels of the stem and of the first stage's 3x3 convolutions
    depths: tuple[int, ...] = (3, 4, 6, 3)  # bottleneck blocks per stage
    expansion: int = 4  # a block's output has this many times its inner channels


# The last scale of each block: small, so that the residual stream neither explodes in evaluation with fresh running
# statistics nor hides the branch from the gradient (Goyal et al. 2017 go as far as zero).
BRANCH_SCALE = 0.25


def blocks(c: Config) -> Iterator[tuple[str, int, int, int]]:
    """(name, input channels, inner channels, stride) of each bottleneck block, in order."""
    channels = c.width
    for stage, depth in enumerate(c.depths):
        inner = c.width * 2**stage
        for i in range(depth):
            yield f"layer{stage + 1}.{i}", channels, inner, 2 if stage > 0 and i == 0 else 1
            channels = inner * c.expansion


def conv(name: str, cin: int, cout: int, k: int) -> Param:
    """He initialisation, fan-out."""
    return Param(f"{name}.weight", (cout, cin, k, k), std=(2 / (cout * k * k)) ** 0.5)


def norm(name: str, channels: int, scale: float = 1.0) -> Iterator[Param]:
    yield Param(f"{name}.weight", (channels,), value=scale)
    yield Param(f"{name}.bias", (channels,))
    yield Param(f"{name}.running_mean", (channels,), trainable=False)
    yield Param(f"{name}.running_var", (channels,), value=1.0, trainable=False)


def params(c: Config) -> Iterator[Param]:
    yield conv("conv1", 3, c.width, 7)
    yield from norm("bn1", c.width)
    for name, cin, inner, stride in blocks(c):
        cout = inner * c.expansion
        yield conv(f"{name}.conv1", cin, inner, 1)
        yield from norm(f"{name}.bn1", inner)
        yield conv(f"{name}.conv2", inner, inner, 3)
        yield from norm(f"{name}.bn2", inner)
        yield conv(f"{name}.conv3", inner, cout, 1)
        yield from norm(f"{name}.bn3", cout, BRANCH_SCALE)
        if stride != 1 or cin != cout:
            yield conv(f"{name}.downsample.0", cin, cout, 1)
            yield from norm(f"{name}.downsample.1", cout)
    features = c.width * 2 ** (len(c.depths) - 1) * c.expansion
    yield Param("fc.weight", (c.classes, features), std=0.01)
    yield Param("fc.bias", (c.classes,))


def inputs(c: Config, batch: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Images (batch, 3, image, image) float32 and labels (batch,) int64."""
    x = rng.standard_normal((batch, 3, c.image, c.image), np.float32)
    return x, rng.integers(0, c.classes, batch)


WORKLOAD = Workload(
    name="resnet50",
    unit="samples",
    optimizer=Optimizer("sgd", lr=0.001),
    sizes={
        "tiny": Preset(Config(image=64, classes=10, width=8, depths=(1, 1, 1, 1)), batches=(4, 8)),
        # batch norm over fewer than 8 samples of 64 px is so ill-conditioned that float32 strays 5e-4 in three steps
        "cpu": Preset(Config(image=64), batches=(8, 16)),
        "full": Preset(Config(), batches=(32, 64, 128, 256, 512)),
    },
    params=params,
    inputs=inputs,
    couples_samples=True,
)
