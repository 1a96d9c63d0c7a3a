"""Estimate what a job needs on a GPU or TPU that is not here.

It is the prediction, the error that predictions of its kind have, and the context. Next to what a
framework's allocator takes, a GPU holds the context: the driver's part of the process and its
loaded kernels. GPUs that others measured had 617 MiB to 1,343 MiB of it.

Standard library only, as planners read it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from framebench.devices.catalog import CONTEXT, Device
from framebench.suite.counting import format_count

# What decides how far a prediction may be off. cuDNN chooses the workspaces of convolutions: it is
# asked for them, or they are left out. "torch" is a step of which no more is known than that it has
# no convolutions.
Kind = Literal[
    "torch",
    "torch, texts of one length",
    "torch, padded texts",
    "torch, frozen weights",
    "torch, weights of 4 bits",
    "torch, convolutions",
    "torch, convolutions without workspaces",
    "torch, recurrent layers",
    "torch, compiled",
    "torch, ranks",
    "torch, tensor parallel",
    "jax",
]
ERRORS = Path(__file__).with_name("errors.json")
FEWEST_ROWS = 5  # with fewer measured peaks the error of a kind is not judged


@dataclass(frozen=True)
class ErrorInterval:
    """The distances of measured peaks from predictions of one kind, as shares of the prediction.

    In each family of models at most one row in ten was below `low`, and at most one above `high`.
    A kind that is not judged has the extremes of the few rows that there are, or 0.
    """

    low: float  # such as -0.02: measured peaks were 2 % less than predicted
    high: float  # such as 0.05: they were 5 % more
    median: float | None  # of absolute errors; None if not judged
    ninth: float | None  # the absolute error that nine of ten rows do not exceed
    rows: int  # peaks that were measured
    families: int  # of models that they are of
    sources: int  # that published them
    steps: Mapping[str, int]  # rows by what was trained: see `STEPS`

    @property
    def is_judged(self) -> bool:
        """Return whether there are enough measured peaks to state an error."""
        return self.rows >= FEWEST_ROWS

    def describe_sides(self) -> str:
        """Return the interval of measured peaks around a prediction, as `-2.0 % to +5.0 %`."""
        return f"{100 * self.low:+.1f} % to {100 * self.high:+.1f} %"

    def describe_doubt(self) -> str:
        """Return that there are too few rows to judge the error, and how many there are."""
        return f"not judged: {format_count(self.rows, 'row')}"

    def describe(self) -> str:
        """Return the error by side in words, or that it is not judged."""
        if self.median is None or self.ninth is None:
            worst = f", the worst {self.high:.1%} too low" if self.rows else ""
            return self.describe_doubt() + worst
        sources = "one source" if self.sources == 1 else f"{self.sources} sources"
        return (
            f"median {self.median:.1%}, nine of ten within {self.ninth:.1%}; in each family nine "
            f"of ten at most {self.high:.1%} too low and at most {abs(self.low):.1%} too high; "
            f"{format_count(self.rows, 'row')} of {sources}"
        )


def read_intervals() -> dict[Kind, ErrorInterval]:
    """Return the errors of each kind that `python -m studies.prediction_errors --write` wrote."""
    stored = json.loads(ERRORS.read_text(encoding="utf-8"))
    return {kind: ErrorInterval(**fields) for kind, fields in stored.items()}


INTERVALS = read_intervals()
TITLES: dict[Kind, str] = {
    "torch": "PyTorch without convolutions",
    "torch, texts of one length": "PyTorch, texts of one length",
    "torch, padded texts": "PyTorch, texts padded to the longest of a batch",
    "torch, frozen weights": "PyTorch, frozen weights (LoRA)",
    "torch, weights of 4 bits": "PyTorch, weights of 4 bits (QLoRA)",
    "torch, convolutions": "PyTorch with convolutions",
    "torch, convolutions without workspaces": "PyTorch with convolutions whose workspaces "
    "are not known",
    "torch, recurrent layers": "PyTorch with recurrent layers (LSTM, GRU, RNN)",
    "torch, compiled": "PyTorch, compiled step",
    "torch, ranks": "PyTorch, one rank of several GPUs",
    "torch, tensor parallel": "PyTorch, one rank of tensor parallelism",
    "jax": "JAX",
}
# what was trained in a measured row: its precision, and whether activations were recomputed
STEPS = (
    "32 bits",
    "32 bits, recomputed",
    "16 bits",
    "16 bits, recomputed",
)
# what no prediction holds, and no row has measured by itself
NOT_PREDICTED = ("memory that NCCL takes for itself", "speed")


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
    _, largest_context = find_context_bytes(device)
    return round(reserved * (1 + error)) + largest_context
