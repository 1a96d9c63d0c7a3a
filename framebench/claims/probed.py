"""How the result of a probe is read. `measure.py` says what each probe measures."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import Literal

from framebench.analysis.statistics import compare_blocks
from framebench.claims.rule import Effect, NoNumber
from framebench.claims.samples import estimate_mean

Numbers = dict[str, list[float]]  # by name, a number for each fresh process
Read = Literal[
    "value",
    "difference",
    "ratio",
    "share saved",
    "error",
    "ran",
    "mean ratio",
    "slowdown",
    "lost",
    "collected",
]
# by which measurements are summed up; the first of a pair is that of exact counts
METRICS = {
    "value": ("median", "average"),
    "difference": ("less", "average"),
    "share saved": ("share_saved", "share_saved"),
    "mean ratio": ("seen", "seen"),
    "slowdown": ("overhead", "overhead"),
}


@dataclass(frozen=True)
class Reading:
    """How a number comes from a probe's result: by which operation, on which of its numbers.

    - `value`, `difference`, `ratio`: of one number, or of two of the same process
    - `share saved`: what the first saves of the second
    - `error`: how far a number is from `right`
    - `ran`: 1 if a listing that came to its end has printed numbers
    - `mean ratio`, `slowdown`: of a number that is a ratio, the slowdown less 1
    - `lost`: samples that never arrived, where memory ran out
    - `collected`: a ratio, where the collector ran as it was told
    """

    read: Read
    of: tuple[str, ...] = ()
    # one process tells the number exactly: from the smallest to the largest is the interval
    exact: bool = False
    right: float = 1.0
    at_least: float = 0.0  # bytes: memory grows by whole pages, and a ratio of nothing is none
    name: str = ""  # instead of that of the operation

    @property
    def metric(self) -> str:
        """The name by which measurements are summed up."""
        if self.name:
            return self.name
        exact, estimated = METRICS.get(self.read, (self.read, self.read))
        return exact if self.exact else estimated

    def effect(self, found: Numbers) -> Effect:
        """Return the number with its interval.

        Raises NoNumber, or KeyError if the result is an older program's.
        """
        if self.read == "ran":
            ran = float(bool(found))
            return Effect(ran, ran, ran)
        if self.read == "lost" and not min(found["recoveries"]):
            raise NoNumber("memory did not run out within the limit, so nothing had to be halved")
        if self.read == "collected" and (
            max(found["gc_off_collections"]) or not min(found["gc_every_2_collections"])
        ):
            raise NoNumber("the collector ran where it was off, or did not where it was called")
        first = found[self.of[0]]
        second = found[self.of[1]] if len(self.of) > 1 else [0.0] * len(first)
        if self.read in ("value", "lost"):
            return self.summarize(first)
        if self.read == "error":
            return self.summarize([abs(value / self.right - 1) for value in first])
        if self.read == "difference":
            return self.summarize(
                [value - other for value, other in zip(first, second, strict=True)]
            )
        if self.read == "mean ratio":
            return average_ratios(first)
        if self.read == "slowdown":
            return Effect(*(ratio - 1 for ratio in average_ratios(first)))
        if not min(second):
            raise NoNumber(f"{self.of[1]} is nothing, and a ratio of it none")
        ratios = [
            max(value, self.at_least) / base for value, base in zip(first, second, strict=True)
        ]
        if self.exact:
            return self.summarize(ratios)
        ratio = average_ratios(ratios)
        if self.read == "share saved":
            return Effect(1 - ratio.value, 1 - ratio.high, 1 - ratio.low)
        return ratio

    def summarize(self, values: list[float]) -> Effect:
        """Return the median of counts with their range, or the mean of amounts.

        The mean has Student's interval.
        """
        if self.exact:
            return Effect(statistics.median(values), min(values), max(values))
        mean = estimate_mean(values)
        return Effect(mean.value, mean.low, mean.high)


def average_ratios(ratios: list[float]) -> Effect:
    """Return the mean of the logarithms over fresh processes, with Student's interval.

    Raises NoNumber.
    """
    if min(ratios) <= 0:
        raise NoNumber(f"{min(ratios):g} is no ratio")
    mean = compare_blocks([math.log(ratio) for ratio in ratios])
    if mean.low is None or mean.high is None:
        return Effect(mean.value, -math.inf, math.inf)
    return Effect(mean.value, mean.low, mean.high)
