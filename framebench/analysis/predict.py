"""Predict the peak at another batch from measured peaks, by a straight line: a fixed part and one
per sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from framebench.analysis.statistics import compute_student_quantile


class TooFew(ValueError):
    """A line needs two batches; the message says which there are."""


class Estimate(NamedTuple):
    """A value with its 95 % interval by Student's t; there is none with two batches, which a line
    always fits.
    """

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Line:
    """Least squares through (batch, bytes)."""

    batches: tuple[int, ...]
    fixed: Estimate
    per_sample: Estimate
    residual: float | None  # standard error of a measurement about the line

    def at(self, batch: int) -> Estimate:
        """Return the peak to expect at this batch, with the interval for one new measurement."""
        x = np.array(self.batches, float)
        spread = 1 + 1 / len(x) + (batch - x.mean()) ** 2 / ((x - x.mean()) ** 2).sum()
        return estimate(
            self.fixed.value + self.per_sample.value * batch, self.residual, spread, len(x)
        )


def estimate(value: float, residual: float | None, spread: float, measurements: int) -> Estimate:
    """Return a value with its interval.

    `spread` is its variance in those of a measurement about the line.
    """
    if residual is None:
        return Estimate(value)
    half = compute_student_quantile(measurements - 2) * residual * spread**0.5
    return Estimate(value, value - half, value + half)


def fit_line(batches: Sequence[int], peaks: Sequence[float]) -> Line:
    """Return the line through these peaks. Raises TooFew."""
    different = sorted(set(batches))
    if len(different) < 2:
        raise TooFew(
            "a line needs peaks at two batches; there are: "
            f"{', '.join(map(str, different)) or 'none'}"
        )
    x, y = np.array(batches, float), np.array(peaks, float)
    n = len(x)
    deviation = x - x.mean()
    square = float((deviation**2).sum())
    slope = float(deviation @ y) / square
    fixed = float(y.mean() - slope * x.mean())
    residual = None
    if n > 2:
        residual = float((((y - fixed - slope * x) ** 2).sum() / (n - 2)) ** 0.5)
    return Line(
        tuple(batches),
        fixed=estimate(fixed, residual, 1 / n + float(x.mean()) ** 2 / square, n),
        per_sample=estimate(slope, residual, 1 / square, n),
        residual=residual,
    )
