"""Specify U-Net 3D as in MLPerf Training's image segmentation (after Isensee et al. 2021, nnU-Net).

Its filters are 32-64-128-256-320 and a bottleneck of 320. Each level has two 3x3x3 convolutions
with instance norm and ReLU. Strided convolutions lead down, transposed convolutions up. It has
31,190,243 parameters at one input channel and three classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from framebench.models.layer import Layer, Switches
from framebench.models.spec import OFF_SHARE, SHIFT, Optimizer, Param, Preset, Workload


@dataclass(frozen=True)
class UNetConfig:
    """The size of a U-Net and of its volumes."""

    patch: int = 128  # voxels along each edge
    filters: tuple[int, ...] = (32, 64, 128, 256, 320, 320)  # per level, and last the bottleneck's
    channels: int = 1  # CT
    classes: int = 3  # background, kidney, tumour (KiTS19)

    @property
    def levels_down(self) -> list[tuple[int, int, int]]:
        """Return (input channels, output channels, stride) of each level on the way down."""
        inputs = (self.channels, *self.filters)
        strides = (1, *[2] * (len(self.filters) - 1))
        return list(zip(inputs, self.filters, strides))

    @property
    def levels_up(self) -> list[tuple[int, int]]:
        """Return (input channels, output channels) of each level on the way up."""
        filters = self.filters[::-1]
        return list(zip(filters, filters[1:]))


def make_conv(name: str, cin: int, cout: int, kernel: int = 3) -> Param:
    """Return the weight of a convolution, with the deviation of He's initialisation (fan-in)."""
    shape = (cout, cin, kernel, kernel, kernel)
    return Param(f"{name}.weight", shape, std=(2 / (cin * kernel**3)) ** 0.5)


def make_unit(name: str, cin: int, cout: int) -> Iterator[Param]:
    """Yield the parameters of a convolution without bias and an affine instance norm."""
    yield make_conv(f"{name}.conv", cin, cout)
    yield Param(f"{name}.norm.weight", (cout,), std=0.2, value=1.0)
    yield Param(f"{name}.norm.bias", (cout,), std=0.2, value=SHIFT, negated=OFF_SHARE)


def make_units(level: str, cin: int, cout: int) -> Iterator[Param]:
    """Yield the parameters of a level's two units."""
    yield from make_unit(f"{level}.unit1", cin, cout)
    yield from make_unit(f"{level}.unit2", cout, cout)


def make_params(config: UNetConfig) -> Iterator[Param]:
    """Yield every parameter, in the order of the model."""
    for number, (cin, cout, _) in enumerate(config.levels_down):
        yield from make_units(f"down.{number}", cin, cout)
    for number, (cin, cout) in enumerate(config.levels_up):
        level = f"up.{number}"
        yield Param(f"{level}.upsample.weight", (cin, cout, 2, 2, 2), std=(2 / cin) ** 0.5)
        yield Param(f"{level}.upsample.bias", (cout,), std=0.2)
        # the upsampled volume has as many channels as the skip connection that is joined to it
        yield from make_units(level, 2 * cout, cout)
    yield make_conv("head", config.filters[0], config.classes, 1)
    yield Param("head.bias", (config.classes,), std=0.2)


def make_inputs(
    config: UNetConfig, batch: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return volumes (batch, channels, d, h, w) float32 and voxel labels (batch, d, h, w) int64."""
    volume = (config.patch, config.patch, config.patch)
    images = rng.standard_normal((batch, config.channels, *volume), np.float32)
    return images, rng.integers(0, config.classes, (batch, *volume))


def list_layers(config: UNetConfig, switches: Switches) -> Iterator[Layer]:
    """Yield the input of every convolution and of every instance norm, as in ResNet-50.

    ReLU may work in place. A skip connection keeps nothing of its own on the way down, where the
    next level's convolution has the same input. On the way up the convolution's input is the
    concatenation of the upsampled tensor and the skip. There is one copy of the logits.
    """
    edge = config.patch
    for i, (cin, cout, stride) in enumerate(config.levels_down):
        # the volume itself is counted among the inputs
        first = 0 if i == 0 else cin * edge**3
        edge = ceil(edge / stride)
        yield from list_unit_layers(f"down.{i}", first, cout * edge**3, is_block_input=True)
    for i, (cin, cout) in enumerate(config.levels_up):
        elements = cin * edge**3
        edge *= 2
        upsampled = cout * edge**3
        yield Layer(
            f"up.{i}.upsample", elements, output=upsampled, is_block_input=True, transposed=True
        )
        yield from list_unit_layers(f"up.{i}", 2 * upsampled, upsampled, is_block_input=False)
    yield Layer("head", config.filters[0] * edge**3, output=config.classes * edge**3)
    yield Layer("logits", config.classes * edge**3)


def list_unit_layers(
    level: str, elements: int, output: int, is_block_input: bool
) -> Iterator[Layer]:
    """Yield the layers of a level's two units, whose input has so many elements per sample."""
    yield Layer(f"{level}.unit1.conv", elements, output=output, is_block_input=is_block_input)
    yield Layer(f"{level}.unit1.norm", output)
    yield Layer(f"{level}.unit2.conv", output, output=output)
    yield Layer(f"{level}.unit2.norm", output)


def halve_width(config: UNetConfig) -> UNetConfig:
    """Return the configuration with half the channels everywhere."""
    return replace(config, filters=tuple(channels // 2 for channels in config.filters))


def shrink_to_student(config: UNetConfig) -> UNetConfig:
    """Return the model that is trained by distillation: one level less."""
    return replace(config, filters=config.filters[:-1])


def list_trained(config: UNetConfig, part: str) -> tuple[str, ...]:
    """Return the prefixes of the parameters that fine-tuning trains: the `half` or the `head`."""
    return ("up.", "head.") if part == "half" else ("head.",)


WORKLOAD = Workload(
    name="unet3d",
    title="3D U-Net",
    order=2,
    benchmark="UNet3D",
    unit="samples",
    optimizer=Optimizer("sgd", lr=0.1),
    sizes={
        "tiny": Preset(UNetConfig(patch=16, filters=(4, 8, 16)), (4,), base=4),
        # one level less than MLPerf's: five halvings of 32 would leave a single voxel, which
        # instance norm cannot take
        "cpu": Preset(UNetConfig(patch=32, filters=(8, 16, 32, 64, 80)), (2, 4, 8), base=4),
        "full": Preset(UNetConfig(), (1, 2, 4, 8), base=4),
    },
    without_golden=("full",),
    params=make_params,
    inputs=make_inputs,
    layers=list_layers,
    couples_samples=False,
    has_convolutions=True,
    variants={"width_half": halve_width, "student": shrink_to_student},
    trained=list_trained,
    head=("head.",),
    rewrites={
        "jax": (
            "3-D convolutions as 2-D ones whose channels hold the neighbouring planes, "
            "transposed ones as a product"
        ),
        "jittor": (
            "3-D convolutions as 2-D ones with the kernel's slices as outputs, "
            "transposed ones as a product"
        ),
    },
)
