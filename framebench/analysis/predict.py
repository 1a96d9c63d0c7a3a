"""The peak at another batch, from the peaks that were measured: a fixed part and one per sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

CONFIDENCE = 0.95


class TooFew(ValueError):
    """A line needs two batches; the message says which there are."""


class Estimate(NamedTuple):
    """95 % interval by Student's t; None with two batches, which a line always fits."""

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
        """The peak to expect at this batch, with the interval for one new measurement."""
        x, n = np.array(self.batches, float), len(self.batches)
        spread = 1 + 1 / n + (batch - x.mean()) ** 2 / ((x - x.mean()) ** 2).sum()
        return _estimate(self.fixed.value + self.per_sample.value * batch, self.residual, spread, n)


def _estimate(value: float, residual: float | None, spread: float, n: int) -> Estimate:
    if residual is None:
        return Estimate(value)
    half = student(n - 2) * residual * spread**0.5
    return Estimate(value, value - half, value + half)


@cache
def student(freedom: int) -> float:
    """The quantile of Student's t that leaves CONFIDENCE between itself and its negative."""
    from scipy.special import stdtrit  # scipy.stats, which calls it, takes four times as long to import

    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))


def fit(batches: Sequence[int], peaks: Sequence[float]) -> Line:
    """Raises TooFew."""
    x, y, n = np.array(batches, float), np.array(peaks, float), len(batches)
    if len(set(batches)) < 2:
        raise TooFew(f"a line needs peaks at two batches; there are: {', '.join(map(str, sorted(set(batches)))) or 'none'}")
    deviation = x - x.mean()
    square = float((deviation**2).sum())
    slope = float(deviation @ y) / square
    fixed = float(y.mean() - slope * x.mean())
    residual = float((((y - fixed - slope * x) ** 2).sum() / (n - 2)) ** 0.5) if n > 2 else None
    return Line(
        tuple(batches),
        _estimate(fixed, residual, 1 / n + float(x.mean()) ** 2 / square, n),
        _estimate(slope, residual, 1 / square, n),
        residual,
    )
