"""Four 3-D convolutions with and without batch norm, for `probes/norm.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

LAYERS = 4


def network(normalised: bool, channels: int) -> Any:
    layers: list[Any] = []
    for _ in range(LAYERS):
        layers += [nn.Conv3d(channels, channels, 3, padding=1)]
        layers += [nn.BatchNorm3d(channels)] * normalised + [nn.ReLU()]
    return nn.Sequential(*layers)


def step(normalised: bool, x: np.ndarray) -> Callable[[], None]:
    """Forward and backward of `x`, (batch, channels, depth, height, width)."""
    model, inputs = network(normalised, x.shape[1]), torch.from_numpy(x)

    def one_step() -> None:
        model(inputs).square().mean().backward()
        model.zero_grad()

    return one_step
