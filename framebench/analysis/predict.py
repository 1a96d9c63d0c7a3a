"""Predict the peak at another batch by a straight line through measured peaks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from framebench.analysis.statistics import compute_student_quantile


class TooFew(ValueError):
    """A line needs two batches; the message says which there are."""


class PeakEstimate(NamedTuple):
    """A value with its 95 % interval by Student's t; two batches give no interval."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class PeakLine:
    """A line through (batch, bytes) by least squares."""

    batches: tuple[int, ...]
    fixed: PeakEstimate
    per_sample: PeakEstimate
    residual: float | None  # standard error of a measurement about the line

    def predict(self, batch: int) -> PeakEstimate:
        """Return the peak to expect at this batch, with the interval for one new measurement."""
        batches = np.array(self.batches, float)
        mean = batches.mean()
        # the variances of the new measurement itself, of the line's mean, and of its slope
        spread = 1 + 1 / len(batches) + (batch - mean) ** 2 / ((batches - mean) ** 2).sum()
        value = self.fixed.value + self.per_sample.value * batch
        return estimate(value, self.residual, spread, len(batches))


def estimate(
    value: float, residual: float | None, spread: float, measurements: int
) -> PeakEstimate:
    """Return a value with its interval.

    `residual` is the standard error of one measurement about the line, and `spread` the variance of
    the value relative to that of one measurement.
    """
    if residual is None:
        return PeakEstimate(value)
    half = compute_student_quantile(measurements - 2) * residual * spread**0.5
    return PeakEstimate(value, value - half, value + half)


def fit_line(batches: Sequence[int], peaks: Sequence[float]) -> PeakLine:
    """Return the line through these peaks. Raises TooFew."""
    different = sorted(set(batches))
    if len(different) < 2:
        present = ", ".join(map(str, different)) or "none"
        raise TooFew(f"a line needs peaks at two batches; there are: {present}")
    x = np.array(batches, float)
    y = np.array(peaks, float)
    n = len(x)
    deviation = x - x.mean()
    square = float((deviation**2).sum())
    slope = float(deviation @ y) / square
    fixed = float(y.mean() - slope * x.mean())
    residual = None  # two points are always on their line
    if n > 2:
        errors = y - fixed - slope * x
        residual = float(((errors**2).sum() / (n - 2)) ** 0.5)
    fixed_spread = 1 / n + float(x.mean()) ** 2 / square
    return PeakLine(
        tuple(batches),
        fixed=estimate(fixed, residual, fixed_spread, n),
        per_sample=estimate(slope, residual, 1 / square, n),
        residual=residual,
    )
