"""ResNet-50 v1.5 (He et al. 2015; v1.5: the stride sits on the 3x3 convolution): 25,557,032 parameters at 1000 classes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from framebench.models.layer import Layer, Switches
from framebench.models.spec import OFF, SHIFT, Optimizer, Param, Preset, Workload


@dataclass(frozen=True)
class Config:
    image: int = 224  # pixels, square
    classes: int = 1000
    width: int = 64  # channels of the stem and of the first stage's 3x3 convolutions
    depths: tuple[int, ...] = (3, 4, 6, 3)  # bottleneck blocks per stage
    expansion: int = 4  # a block's output has this many times its inner channels
    groups: int = 1  # of the 3x3 convolutions; 0: one for each channel

    def groups_of(self, inner: int) -> int:
        return self.groups or inner


# The last scale of each block: small, so that the residual stream neither explodes in evaluation with fresh running
# statistics nor hides the branch from the gradient (Goyal et al. 2017 go as far as zero), nor gathers every branch's rounding.
BRANCH_SCALE = 0.1
# Lower than the others: of what the max pooling takes all would be on, and no loss would depend on the stem's biases.
STEM_SHIFT = -0.7


def blocks(c: Config) -> Iterator[tuple[str, int, int, int]]:
    """(name, input channels, inner channels, stride) of each bottleneck block, in order."""
    channels = c.width
    for stage, depth in enumerate(c.depths):
        inner = c.width * 2**stage
        for i in range(depth):
            yield f"layer{stage + 1}.{i}", channels, inner, 2 if stage > 0 and i == 0 else 1
            channels = inner * c.expansion


def conv(name: str, cin: int, cout: int, k: int, groups: int = 1) -> Param:
    """He initialisation, fan-out."""
    return Param(f"{name}.weight", (cout, cin // groups, k, k), std=(2 * groups / (cout * k * k)) ** 0.5)


def norm(name: str, cin: int, cout: int, scale: float = 1.0, square: float = SHIFT**2) -> Iterator[Param]:
    """After a convolution from `cin` channels, whose mean square is about `square`. The running variances are about those that
    it then gives, so that in evaluation the logits depend on the image, not on the shifts alone."""
    gain = 2 * square * cin / cout  # of the convolution, in mean squares
    yield Param(f"{name}.weight", (cout,), std=0.2 * scale, value=scale)
    yield Param(f"{name}.bias", (cout,), std=0.2 * scale, value=SHIFT * scale, negated=OFF)
    # in units of what the norm lets through, so that a small scale does not hide what is subtracted
    yield Param(f"{name}.running_mean", (cout,), std=0.2 / scale * gain**0.5, trainable=False)
    yield Param(f"{name}.running_var", (cout,), std=0.3, value=gain, trainable=False, positive=True)


def params(c: Config) -> Iterator[Param]:
    yield conv("conv1", 3, c.width, 7)
    for p in norm("bn1", 3, c.width, square=1.0):
        yield replace(p, value=STEM_SHIFT, negated=0.0) if p.name == "bn1.bias" else p
    for name, cin, inner, stride in blocks(c):
        cout = inner * c.expansion
        yield conv(f"{name}.conv1", cin, inner, 1)
        yield from norm(f"{name}.bn1", cin, inner)
        yield conv(f"{name}.conv2", inner, inner, 3, c.groups_of(inner))
        yield from norm(f"{name}.bn2", inner, inner)
        yield conv(f"{name}.conv3", inner, cout, 1)
        yield from norm(f"{name}.bn3", inner, cout, BRANCH_SCALE)
        if stride != 1 or cin != cout:
            yield conv(f"{name}.downsample.0", cin, cout, 1)
            yield from norm(f"{name}.downsample.1", cin, cout)
    features = c.width * 2 ** (len(c.depths) - 1) * c.expansion
    yield Param("fc.weight", (c.classes, features), std=features**-0.5)
    yield Param("fc.bias", (c.classes,), std=0.1)


def normalised(c: Config, batch: int) -> dict[str, int]:
    """How many values per channel each batch norm normalises, by the name of its running variance."""
    edge = c.image // 2
    edges = {"bn1": edge}
    edge = -(-edge // 2)  # after max pooling
    for name, _, _, stride in blocks(c):
        edges[f"{name}.bn1"] = edge
        edge = -(-edge // stride)  # the stride is the 3x3 convolution's
        edges |= dict.fromkeys((f"{name}.bn2", f"{name}.bn3", f"{name}.downsample.1"), edge)
    return {f"{name}.running_var": batch * side**2 for name, side in edges.items()}


def inputs(c: Config, batch: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Images (batch, 3, image, image) float32 and labels (batch,) int64."""
    x = rng.standard_normal((batch, 3, c.image, c.image), np.float32)
    return x, rng.integers(0, c.classes, batch)


def raw_images(c: Config, batch: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """As they lie on a disk: images (batch, 3, 2 x image, 2 x image) uint8 and labels (batch,) int64."""
    x = rng.integers(0, 256, (batch, 3, 2 * c.image, 2 * c.image), np.uint8)
    return x, rng.integers(0, c.classes, batch)


def prepare(raw: np.ndarray) -> np.ndarray:
    """Halve each edge by averaging 2x2 pixels, and scale to mean 0 and variance about 1: (batch, 3, image, image) float32."""
    b, channels, h, w = raw.shape
    pixels = raw.reshape(b, channels, h // 2, 2, w // 2, 2).astype(np.float32)
    return (pixels.mean((3, 5)) - np.float32(127.5)) / np.float32(37)


def layers(c: Config, switches: Switches) -> Iterator[Layer]:
    """The input of every convolution and of every batch norm.

    A batch norm's input is a convolution's output, and the next convolution's input is that after norm and ReLU, which may work
    in place: two tensors per convolution. A shortcut's convolution shares its input with the block's first. Left out: the
    image (counted among the inputs), the ReLU before the pooling and that of the last block, which both follow from a norm's
    input, and the pooling's indices.
    """
    edge = ceil(c.image / 2)
    yield Layer("conv1", 0, output=c.width * edge**2)
    yield Layer("bn1", c.width * edge**2)
    edge = ceil(edge / 2)
    for name, cin, inner, stride in blocks(c):
        small, cout = ceil(edge / stride), inner * c.expansion
        yield Layer(f"{name}.conv1", cin * edge**2, output=inner * edge**2, border=True)
        yield Layer(f"{name}.bn1", inner * edge**2)
        yield Layer(f"{name}.conv2", inner * edge**2, output=inner * small**2)
        yield Layer(f"{name}.bn2", inner * small**2)
        yield Layer(f"{name}.conv3", inner * small**2, output=cout * small**2)
        yield Layer(f"{name}.bn3", cout * small**2)
        if stride != 1 or cin != cout:
            yield Layer(f"{name}.downsample.0", 0, output=cout * small**2)
            yield Layer(f"{name}.downsample.1", cout * small**2)
        edge = small
    features = c.width * 2 ** (len(c.depths) - 1) * c.expansion
    yield Layer("fc", features, output=c.classes)
    yield Layer("logits", c.classes)


WORKLOAD = Workload(
    name="resnet50",
    title="ResNet-50",
    order=1,
    benchmark="ResNet50",
    unit="samples",
    optimizer=Optimizer("sgd", lr=0.001),
    sizes={
        "tiny": Preset(Config(image=64, classes=10, width=8, depths=(1, 1, 1, 1)), (4, 8), base=4),
        # batch norm over fewer than 8 samples of 64 px is so ill-conditioned that float32 strays 5e-4 in three steps
        "cpu": Preset(Config(image=64), (8, 16, 32), base=8),
        # activations dominate there, as in the articles, in batches that a processor can still train
        "px224": Preset(Config(), (8, 16), base=8),
        "full": Preset(Config(), (32, 64, 128, 256, 512), base=64),
    },
    without_golden=("px224", "full"),
    params=params,
    inputs=inputs,
    layers=layers,
    couples_samples=True,
    variants={
        "width_half": lambda c: replace(c, width=c.width // 2),
        "grouped": lambda c: replace(c, groups=c.width // 2),  # 32 at the full width, as in ResNeXt
        "depthwise": lambda c: replace(c, groups=0),
        "student": lambda c: replace(c, width=c.width // 2, depths=tuple(max(1, d // 2) for d in c.depths)),
    },
    trained=lambda c, part: ("layer3.", "layer4.", "fc.") if part == "half" else ("fc.",),
    head=("fc.",),
    normalised=normalised,
    raw_images=raw_images,
    prepare=prepare,
)
