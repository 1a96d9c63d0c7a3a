"""Specify ResNet-50 v1.5 (He et al. 2015): 25,557,032 parameters at 1000 classes.

In v1.5 a block's stride sits on its 3x3 convolution, not on its first 1x1 convolution.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import ceil

import numpy as np

from framebench.models.layer import Layer, Switches
from framebench.models.spec import OFF_SHARE, SHIFT, Optimizer, Param, Preset, Workload


@dataclass(frozen=True)
class ResNetConfig:
    """The size of a ResNet and of its images."""

    image: int = 224  # pixels, square
    classes: int = 1000
    width: int = 64  # channels of the stem and of the first stage's 3x3 convolutions
    depths: tuple[int, ...] = (3, 4, 6, 3)  # bottleneck blocks per stage
    expansion: int = 4  # a block's output has this many times its inner channels
    groups: int = 1  # of the 3x3 convolutions; 0 stands for one group for each channel

    @property
    def stages(self) -> list[str]:
        """Return the names of the stages, as torchvision has them: `layer1`, `layer2` ..."""
        return [f"layer{number}" for number in range(1, len(self.depths) + 1)]

    @property
    def features(self) -> int:
        """Return how many channels the last stage gives to the linear layer."""
        return self.width * 2 ** (len(self.depths) - 1) * self.expansion


# The scale of each block's last batch norm. It is small, so that the residual stream neither
# explodes in evaluation with fresh running statistics, nor hides the branch from the gradient
# (Goyal et al. 2017 go as far as zero), nor gathers the rounding of every branch.
BRANCH_SCALE = 0.1
# The stem's shift is lower than the others': with SHIFT all that the max pooling takes would be on,
# and no loss would depend on the stem's biases.
STEM_SHIFT = -0.7


@dataclass(frozen=True)
class BottleneckShape:
    """The channels, the stride and the edges of one bottleneck block."""

    stage: str  # such as `layer1`
    name: str  # such as `layer1.0`
    cin: int
    inner: int  # channels of the 3x3 convolution
    cout: int
    stride: int
    groups: int  # of the 3x3 convolution
    edge: int  # of the input, in pixels

    @property
    def is_projected(self) -> bool:
        """Return whether the shortcut needs a convolution: input and output differ in shape."""
        return self.stride != 1 or self.cin != self.cout

    @property
    def edge_out(self) -> int:
        """Return the edge of the output, in pixels."""
        return ceil(self.edge / self.stride)


def list_blocks(config: ResNetConfig) -> list[BottleneckShape]:
    """Return the shapes of all bottleneck blocks, in the order in which an image passes them."""
    blocks = []
    channels = config.width
    edge = ceil(ceil(config.image / 2) / 2)  # after the stem's convolution and its max pooling
    for number, (stage, depth) in enumerate(zip(config.stages, config.depths)):
        inner = config.width * 2**number
        for i in range(depth):
            block = BottleneckShape(
                stage=stage,
                name=f"{stage}.{i}",
                cin=channels,
                inner=inner,
                cout=inner * config.expansion,
                stride=2 if number > 0 and i == 0 else 1,
                groups=config.groups or inner,
                edge=edge,
            )
            blocks.append(block)
            channels = block.cout
            edge = block.edge_out
    return blocks


def make_conv(name: str, cin: int, cout: int, kernel: int, groups: int = 1) -> Param:
    """Return the weight of a convolution, with the deviation of He's initialisation (fan-out)."""
    shape = (cout, cin // groups, kernel, kernel)
    return Param(f"{name}.weight", shape, std=(2 * groups / (cout * kernel * kernel)) ** 0.5)


def make_norm(
    name: str,
    cin: int,
    cout: int,
    scale: float = 1.0,
    input_square: float = SHIFT**2,
    shift: float = SHIFT,
    negated: float = OFF_SHARE,
) -> Iterator[Param]:
    """Yield weight, bias and running statistics of a batch norm that follows a convolution.

    `cin` and `cout` are the convolution's channels, `input_square` is about the mean square of its
    input. The running variances are about those that such an input gives, so that in evaluation the
    logits depend on the image, and not only on the shifts.
    """
    variance = 2 * input_square * cin / cout  # of the convolution's output
    yield Param(f"{name}.weight", (cout,), std=0.2 * scale, value=scale)
    yield Param(f"{name}.bias", (cout,), std=0.2 * scale, value=shift * scale, negated=negated)
    # in units of what the norm lets through, so that a small scale does not hide what is subtracted
    mean_std = 0.2 / scale * variance**0.5
    yield Param(f"{name}.running_mean", (cout,), std=mean_std, trainable=False)
    yield Param(
        f"{name}.running_var", (cout,), std=0.3, value=variance, trainable=False, positive=True
    )


def make_params(config: ResNetConfig) -> Iterator[Param]:
    """Yield every parameter and buffer under the name that torchvision's ResNet gives it."""
    yield make_conv("conv1", 3, config.width, 7)
    yield from make_norm("bn1", 3, config.width, input_square=1.0, shift=STEM_SHIFT, negated=0.0)
    for block in list_blocks(config):
        name, inner = block.name, block.inner
        yield make_conv(f"{name}.conv1", block.cin, inner, 1)
        yield from make_norm(f"{name}.bn1", block.cin, inner)
        yield make_conv(f"{name}.conv2", inner, inner, 3, block.groups)
        yield from make_norm(f"{name}.bn2", inner, inner)
        yield make_conv(f"{name}.conv3", inner, block.cout, 1)
        yield from make_norm(f"{name}.bn3", inner, block.cout, BRANCH_SCALE)
        if block.is_projected:
            yield make_conv(f"{name}.downsample.0", block.cin, block.cout, 1)
            yield from make_norm(f"{name}.downsample.1", block.cin, block.cout)
    yield Param("fc.weight", (config.classes, config.features), std=config.features**-0.5)
    yield Param("fc.bias", (config.classes,), std=0.1)


def count_normalised(config: ResNetConfig, batch: int) -> dict[str, int]:
    """Return how many values per channel each batch norm sees, by its running variance's name."""
    edges = {"bn1": ceil(config.image / 2)}  # of the square feature map that a batch norm sees
    for block in list_blocks(config):
        edges[f"{block.name}.bn1"] = block.edge
        # the 3x3 convolution has the stride: bn1, before it, sees the input's size
        edges[f"{block.name}.bn2"] = block.edge_out
        edges[f"{block.name}.bn3"] = block.edge_out
        if block.is_projected:
            edges[f"{block.name}.downsample.1"] = block.edge_out
    return {f"{norm}.running_var": batch * edge**2 for norm, edge in edges.items()}


def make_inputs(
    config: ResNetConfig, batch: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return images (batch, 3, image, image) float32 and labels (batch,) int64."""
    images = rng.standard_normal((batch, 3, config.image, config.image), np.float32)
    return images, rng.integers(0, config.classes, batch)


def make_raw_images(
    config: ResNetConfig, batch: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return images as a disk holds them, of twice the edge, and labels.

    The images are (batch, 3, 2 x image, 2 x image) uint8, the labels (batch,) int64.
    """
    raw = rng.integers(0, 256, (batch, 3, 2 * config.image, 2 * config.image), np.uint8)
    return raw, rng.integers(0, config.classes, batch)


def prepare_images(raw: np.ndarray) -> np.ndarray:
    """Halve each edge by averaging 2x2 pixels, and scale to mean 0 and variance about 1.

    Returns (batch, 3, image, image) float32.
    """
    batch, channels, height, width = raw.shape
    pixels = raw.reshape(batch, channels, height // 2, 2, width // 2, 2).astype(np.float32)
    return (pixels.mean((3, 5)) - np.float32(127.5)) / np.float32(37)


def list_layers(config: ResNetConfig, switches: Switches) -> Iterator[Layer]:
    """Yield the input of every convolution and of every batch norm.

    A batch norm's input is a convolution's output. The next convolution's input is that after norm
    and ReLU, which may work in place: two tensors per convolution. A shortcut's convolution shares
    its input with the block's first one.

    Left out are the image (counted among the inputs), the ReLU before the pooling and the last
    block's ReLU, which both follow from a norm's input, and the pooling's indices.
    """
    stem = config.width * ceil(config.image / 2) ** 2
    yield Layer("conv1", 0, output=stem)
    yield Layer("bn1", stem)
    for block in list_blocks(config):
        name = block.name
        inner = block.inner * block.edge**2
        inner_strided = block.inner * block.edge_out**2
        result = block.cout * block.edge_out**2
        yield Layer(f"{name}.conv1", block.cin * block.edge**2, output=inner, is_block_input=True)
        yield Layer(f"{name}.bn1", inner)
        yield Layer(f"{name}.conv2", inner, output=inner_strided)
        yield Layer(f"{name}.bn2", inner_strided)
        yield Layer(f"{name}.conv3", inner_strided, output=result)
        yield Layer(f"{name}.bn3", result)
        if block.is_projected:
            yield Layer(f"{name}.downsample.0", 0, output=result)
            yield Layer(f"{name}.downsample.1", result)
    yield Layer("fc", config.features, output=config.classes)
    yield Layer("logits", config.classes)


def halve_width(config: ResNetConfig) -> ResNetConfig:
    """Return the configuration with half the channels everywhere."""
    return replace(config, width=config.width // 2)


def group_convolutions(config: ResNetConfig) -> ResNetConfig:
    """Return the configuration with grouped 3x3 convolutions, as in ResNeXt.

    At the full width there are 32 groups.
    """
    return replace(config, groups=config.width // 2)


def shrink_to_student(config: ResNetConfig) -> ResNetConfig:
    """Return the model that is trained by distillation: half the channels, half the blocks."""
    depths = tuple(max(1, depth // 2) for depth in config.depths)
    return replace(config, width=config.width // 2, depths=depths)


def list_trained(config: ResNetConfig, part: str) -> tuple[str, ...]:
    """Return the prefixes of the parameters that fine-tuning trains: the `half` or the `head`."""
    return ("layer3.", "layer4.", "fc.") if part == "half" else ("fc.",)


WORKLOAD = Workload(
    name="resnet50",
    title="ResNet-50",
    order=1,
    benchmark="ResNet50",
    unit="samples",
    optimizer=Optimizer("sgd", lr=0.001),
    sizes={
        "tiny": Preset(
            ResNetConfig(image=64, classes=10, width=8, depths=(1, 1, 1, 1)), (4, 8), base=4
        ),
        # batch norm over fewer than 8 samples of 64 px is so ill-conditioned that float32 strays
        # 5e-4 in three steps
        "cpu": Preset(ResNetConfig(image=64), (8, 16, 32), base=8),
        # activations dominate there, as in the articles, in batches that a CPU can still train
        "px224": Preset(ResNetConfig(), (8, 16), base=8),
        "full": Preset(ResNetConfig(), (32, 64, 128, 256, 512), base=64),
    },
    without_golden=("px224", "full"),
    params=make_params,
    inputs=make_inputs,
    layers=list_layers,
    couples_samples=True,
    has_convolutions=True,
    variants={
        "width_half": halve_width,
        "grouped": group_convolutions,
        "depthwise": partial(replace, groups=0),
        "student": shrink_to_student,
    },
    trained=list_trained,
    head=("fc.",),
    normalised=count_normalised,
    raw_images=make_raw_images,
    prepare=prepare_images,
)
