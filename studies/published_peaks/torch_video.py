"""MMAction2's recognizers of video, as its model zoo trained them.

Written anew from the library's description; the two-dimensional networks are torchvision's, which
the library loads its weights from.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional
from torchvision import models as vision

WIDTH = 2048  # of what a network makes of an image, or of all frames


class Recognizer(nn.Module):
    """A network, the mean over its positions and clips, and a layer of classes."""

    def __init__(self, network: nn.Module, classes: int, dropout: float) -> None:
        """Put a head of so many classes on a network that makes WIDTH channels."""
        super().__init__()
        self.network = network
        self.dropout = nn.Dropout(dropout)
        self.classify = nn.Linear(WIDTH, classes)

    def forward(self, clips: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of (samples, clips, channels, ...).

        Labels are integers, or floats where a sample has several classes.
        """
        samples = len(clips)
        features = self.network(clips.reshape(-1, *clips.shape[2:]))
        pool = (
            functional.adaptive_avg_pool3d
            if features.dim() == 5
            else functional.adaptive_avg_pool2d
        )
        features = pool(features, 1)
        features = features.reshape(samples, -1, WIDTH).mean(dim=1)
        scores = self.classify(self.dropout(features))
        if labels.is_floating_point():
            return functional.binary_cross_entropy_with_logits(scores, labels)
        return functional.cross_entropy(scores, labels)


def make_convolution(
    inputs: int, outputs: int, kernel: tuple[int, int, int], stride: int = 1, activates: bool = True
) -> nn.Sequential:
    """Return a convolution, its norm and ReLU; the stride is that of the two axes of an image."""
    padding = kernel[0] // 2, kernel[1] // 2, kernel[2] // 2
    layers: list[nn.Module] = [
        nn.Conv3d(inputs, outputs, kernel, (1, stride, stride), padding, bias=False),
        nn.BatchNorm3d(outputs),
    ]
    if activates:
        layers.append(nn.ReLU(inplace=True))
    return nn.Sequential(*layers)


class Bottleneck3d(nn.Module):
    """A residual block; `frames` is the length of its first kernel in time."""

    def __init__(self, inputs: int, width: int, stride: int, frames: int) -> None:
        """Make the layers of a block that returns four times its width."""
        super().__init__()
        outputs = 4 * width
        self.layers = nn.Sequential(
            make_convolution(inputs, width, (frames, 1, 1)),
            make_convolution(width, width, (1, 3, 3), stride),
            make_convolution(width, outputs, (1, 1, 1), activates=False),
        )
        self.shortcut = None
        if stride != 1 or inputs != outputs:
            self.shortcut = make_convolution(inputs, outputs, (1, 1, 1), stride, activates=False)

    def forward(self, values: Tensor) -> Tensor:
        """Return the activations of the next block."""
        out = self.layers(values)
        identity = values if self.shortcut is None else self.shortcut(values)
        return functional.relu(out + identity, inplace=True)


def make_slow_only() -> nn.Sequential:
    """Return ResNet3dSlowOnly of depth 50: kernels see several frames in its last two stages."""
    layers: list[nn.Module] = [
        make_convolution(3, 64, (1, 7, 7), stride=2),
        nn.MaxPool3d((1, 3, 3), (1, 2, 2), (0, 1, 1)),
    ]
    inputs = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 * 2**stage
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(Bottleneck3d(inputs, width, stride, frames=3 if stage >= 2 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers)


def make_resnet(make: Callable[[], vision.ResNet], channels: int = 3) -> nn.Sequential:
    """Return torchvision's network up to its pooling, for images of so many channels."""
    layers = list(make().children())[:-2]
    if channels != 3:
        layers[0] = nn.Conv2d(channels, 64, 7, 2, 3, bias=False)
    return nn.Sequential(*layers)


RECOGNIZERS: dict[str, Callable[[], Recognizer]] = {
    "tsn-r50": lambda: Recognizer(make_resnet(vision.resnet50), 400, 0.4),
    "tsn-r50-flow": lambda: Recognizer(make_resnet(vision.resnet50, channels=10), 400, 0.4),
    "tsn-r101": lambda: Recognizer(make_resnet(vision.resnet101), 313, 0.5),
    "slowonly-r50": lambda: Recognizer(make_slow_only(), 400, 0.5),
}


def make_batch(model: str, batch: int, clip: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return clips on the host, and labels: one for each sample, or whether it has each class."""
    labels = torch.empty(batch, dtype=torch.int64)
    if model == "tsn-r101":  # Multi-Moments in Time
        labels = torch.empty(batch, 313)
    return torch.empty(batch, *clip), labels
