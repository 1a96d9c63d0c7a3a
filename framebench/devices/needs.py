"""Estimate what a job needs on a GPU or TPU that is not here.

It is the prediction, the error that predictions of its kind have, and the context. Next to what a
framework's allocator takes, a GPU holds the context: the driver's part of the process and its
loaded kernels. GPUs that others measured had 617 MiB to 1,343 MiB of it.

Standard library only, as planners read it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from framebench.devices.catalog import CONTEXT, Device

# The share that any prediction may be off by, whatever its kind: claims are judged with it.
# PyTorch: the error that nine of ten peaks that others measured are within
# (studies/published_peaks). JAX: more than a GPU of our own was off by at full size
# (studies/gpu_session).
ALLOWED = {"torch": 0.0789776, "jax": 0.08}

# What decides how far a prediction may be off. cuDNN chooses the workspaces of convolutions: it is
# asked for them, or they are left out.
Kind = Literal[
    "torch",
    "torch, ranks",
    "torch, convolutions",
    "torch, convolutions without workspaces",
    "jax",
]
ERRORS = Path(__file__).with_name("errors.json")


@dataclass(frozen=True)
class ErrorInterval:
    """The distances of measured peaks from predictions of one kind, as shares of the prediction.

    In each family of models at most one row in ten was below `low`, and at most one above `high`.
    """

    low: float  # such as -0.02: measured peaks were 2 % less than predicted
    high: float  # such as 0.05: they were 5 % more
    median: float  # of absolute errors
    rows: int  # peaks that were measured
    families: int  # of models that they are of

    def describe(self) -> str:
        """Return such as `-2.0 % to +5.0 %`."""
        return f"{100 * self.low:+.1f} % to {100 * self.high:+.1f} %"


def read_intervals() -> dict[Kind, ErrorInterval]:
    """Return the errors of each kind that `python -m studies.prediction_errors --write` wrote."""
    stored = json.loads(ERRORS.read_text())
    return {kind: ErrorInterval(**fields) for kind, fields in stored.items()}


INTERVALS = read_intervals()
TITLES: dict[Kind, str] = {
    "torch": "PyTorch without convolutions",
    "torch, ranks": "PyTorch without convolutions, one rank of several GPUs",
    "torch, convolutions": "PyTorch with convolutions",
    "torch, convolutions without workspaces": "PyTorch with convolutions whose workspaces "
    "are not known",
    "jax": "JAX",
}


def find_context_bytes(device: Device) -> tuple[int, int]:
    """Return the bytes of a context on a device, at the least and at the most."""
    return CONTEXT if device.kind == "gpu" else (0, 0)


def estimate_needs(reserved: int, error: float, device: Device) -> int:
    """Return the bytes of the device's memory to plan with.

    This memory is enough wherever the prediction is off by no more than `error`.

    Args:
        reserved: Bytes that the framework is predicted to take.
        error: The share by which the prediction may be too low: `ErrorInterval.high`.
        device: The target device.
    """
    return round(reserved * (1 + error)) + find_context_bytes(device)[1]
