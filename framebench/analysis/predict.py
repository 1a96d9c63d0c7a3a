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
    fixed: float  # bytes that do not depend on the batch
    per_sample: float  # bytes
    # standard error of a measurement about the line; two points are always on it, and have none
    residual: float | None

    def predict(self, batch: int) -> PeakEstimate:
        """Return the peak to expect at this batch, with the interval for one new measurement."""
        value = self.fixed + self.per_sample * batch
        if self.residual is None:
            return PeakEstimate(value)
        batches = np.array(self.batches, float)
        mean = batches.mean()
        distance = (batch - mean) ** 2 / ((batches - mean) ** 2).sum()
        # the variances of the new measurement itself, of the line's mean, and of its slope
        spread = float(1 + 1 / len(batches) + distance)
        half = compute_student_quantile(len(batches) - 2) * self.residual * spread**0.5
        return PeakEstimate(value, low=value - half, high=value + half)


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
    residual = None
    if n > 2:
        errors = y - fixed - slope * x
        residual = float(((errors**2).sum() / (n - 2)) ** 0.5)
    return PeakLine(tuple(batches), fixed, slope, residual)
