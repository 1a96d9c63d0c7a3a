"""U-Net 3D as in MLPerf Training's image segmentation (after Isensee et al. 2021, nnU-Net).

Filters 32-64-128-256-320 and a bottleneck of 320, two 3x3x3 convolutions with instance norm and ReLU per level, strided
convolutions down, transposed convolutions up: 31,190,243 parameters at one input channel and three classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from framebench.models.layer import Layer, Switches
from framebench.models.spec import OFF, SHIFT, Optimizer, Param, Preset, Workload


@dataclass(frozen=True)
class Config:
    patch: int = 128  # voxels along each edge
    filters: tuple[int, ...] = (32, 64, 128, 256, 320, 320)  # per level; the last is the bottleneck
    channels: int = 1  # CT
    classes: int = 3  # background, kidney, tumour (KiTS19)


def conv(name: str, cin: int, cout: int, k: int = 3) -> Param:
    """He initialisation, fan-in."""
    return Param(f"{name}.weight", (cout, cin, k, k, k), std=(2 / (cin * k**3)) ** 0.5)


def unit(name: str, cin: int, cout: int) -> Iterator[Param]:
    """Convolution without bias, then affine instance norm."""
    yield conv(f"{name}.conv", cin, cout)
    yield Param(f"{name}.norm.weight", (cout,), std=0.2, value=1.0)
    yield Param(f"{name}.norm.bias", (cout,), std=0.2, value=SHIFT, negated=OFF)


def params(c: Config) -> Iterator[Param]:
    levels = (c.channels, *c.filters)
    for i, (cin, cout) in enumerate(zip(levels, c.filters, strict=False)):
        yield from unit(f"down.{i}.unit1", cin, cout)
        yield from unit(f"down.{i}.unit2", cout, cout)
    up = c.filters[::-1]
    for i, (cin, cout) in enumerate(zip(up, up[1:], strict=False)):
        yield Param(f"up.{i}.upsample.weight", (cin, cout, 2, 2, 2), std=(2 / cin) ** 0.5)
        yield Param(f"up.{i}.upsample.bias", (cout,), std=0.2)
        yield from unit(f"up.{i}.unit1", 2 * cout, cout)
        yield from unit(f"up.{i}.unit2", cout, cout)
    yield conv("head", c.filters[0], c.classes, 1)
    yield Param("head.bias", (c.classes,), std=0.2)


def inputs(c: Config, batch: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Volumes (batch, channels, patch, patch, patch) float32 and voxel labels (batch, patch, patch, patch) int64."""
    shape = (c.patch,) * 3
    return rng.standard_normal((batch, c.channels, *shape), np.float32), rng.integers(0, c.classes, (batch, *shape))


def layers(c: Config, switches: Switches) -> Iterator[Layer]:
    """The input of every convolution and of every instance norm, as in ResNet-50; ReLU may work in place.

    A skip connection keeps nothing of its own on the way down, where the next level's convolution has the same input; on the
    way up the convolution's input is the concatenation of the upsampled tensor and the skip. One copy of the logits.
    """
    edge = c.patch
    for i, (cin, cout) in enumerate(zip((c.channels, *c.filters), c.filters)):
        first = 0 if i == 0 else cin * edge**3  # the volume itself is counted among the inputs
        edge = edge if i == 0 else ceil(edge / 2)
        yield from units(f"down.{i}", first, cout * edge**3, border=True)
    for i, (cin, cout) in enumerate(zip(c.filters[::-1], c.filters[-2::-1])):
        yield Layer(f"up.{i}.upsample", cin * edge**3, output=cout * (2 * edge) ** 3, border=True, transposed=True)
        edge *= 2
        yield from units(f"up.{i}", 2 * cout * edge**3, cout * edge**3, border=False)
    yield Layer("head", c.filters[0] * edge**3, output=c.classes * edge**3)
    yield Layer("logits", c.classes * edge**3)


def units(name: str, first: int, result: int, border: bool) -> Iterator[Layer]:
    yield Layer(f"{name}.unit1.conv", first, output=result, border=border)
    yield Layer(f"{name}.unit1.norm", result)
    yield Layer(f"{name}.unit2.conv", result, output=result)
    yield Layer(f"{name}.unit2.norm", result)


WORKLOAD = Workload(
    name="unet3d",
    title="3D U-Net",
    order=2,
    benchmark="UNet3D",
    unit="samples",
    optimizer=Optimizer("sgd", lr=0.1),
    sizes={
        "tiny": Preset(Config(patch=16, filters=(4, 8, 16)), (4,), base=4),
        # one level less than MLPerf's: five halvings of 32 would leave a single voxel, which instance norm cannot take
        "cpu": Preset(Config(patch=32, filters=(8, 16, 32, 64, 80)), (2, 4, 8), base=4),
        "full": Preset(Config(), (1, 2, 4, 8), base=4),
    },
    without_golden=("full",),
    params=params,
    inputs=inputs,
    layers=layers,
    couples_samples=False,
    variants={
        "width_half": lambda c: replace(c, filters=tuple(f // 2 for f in c.filters)),
        "student": lambda c: replace(c, filters=c.filters[:-1]),
    },
    trained=lambda c, part: ("up.", "head.") if part == "half" else ("head.",),
    head=("head.",),
    rewrites={
        "jax": "3-D convolutions as 2-D ones whose channels hold the neighbouring planes, transposed ones as a product",
        "jittor": "3-D convolutions as 2-D ones with the kernel's slices as outputs, transposed ones as a product",
    },
)
