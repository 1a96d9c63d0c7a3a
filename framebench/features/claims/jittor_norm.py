"""Four 3-D convolutions with and without batch norm, for `probes/norm.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jittor as jt
import numpy as np
from jittor import nn

LAYERS = 4


def network(normalised: bool, channels: int) -> Any:
    layers: list[Any] = []
    for _ in range(LAYERS):
        layers += [nn.Conv3d(channels, channels, 3, padding=1)]
        layers += [nn.BatchNorm3d(channels)] * normalised + [nn.ReLU()]
    return nn.Sequential(*layers)


def step(normalised: bool, x: np.ndarray) -> Callable[[], None]:
    """Forward and backward of `x`, (batch, channels, depth, height, width)."""
    model, inputs = network(normalised, x.shape[1]), jt.array(x)

    def one_step() -> None:
        jt.sync(jt.grad((model(inputs) ** 2).mean(), model.parameters()))
        jt.sync_all(True)
        jt.clean()
        jt.gc()

    return one_step
