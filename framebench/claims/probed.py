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
    "seen",
    "lost",
    "collected",
]
# how many numbers of each process an operation is of
NUMBERS_OF: dict[Read, int] = {
    "ran": 0,
    "value": 1,
    "lost": 1,
    "error": 1,
    "mean ratio": 1,
    "difference": 2,
    "ratio": 2,
    "share saved": 2,
    "collected": 2,
    "seen": 2,
}
# by which measurements are summed up; the first of a pair is that of exact counts
METRICS = {
    "value": ("median", "average"),
    "difference": ("less", "average"),
    "share saved": ("share_saved", "share_saved"),
    "mean ratio": ("seen", "seen"),
    "seen": ("found_of_missed", "found_of_missed"),
}


@dataclass(frozen=True)
class Reading:
    """How a number comes from a probe's result: by which operation, on which of its numbers.

    - `value`, `difference`, `ratio`: of one number, or of two of the same process
    - `share saved`: what the first saves of the second
    - `error`: how far a number is from `right`
    - `ran`: 1 if a listing that came to its end has printed numbers
    - `mean ratio`: of a number that is a ratio
    - `seen`: of two shares of a peak, which part the first found of what the second missed
    - `lost`: samples that never arrived, where memory ran out
    - `collected`: a ratio, where the collector ran as it was set
    """

    read: Read
    of: tuple[str, ...] = ()
    # one process tells the number exactly: from the smallest to the largest is the interval
    exact: bool = False
    right: float = 1.0
    at_least: float = 0.0  # bytes: memory grows by whole pages, and a ratio of nothing is none
    name: str = ""  # instead of that of the operation

    def __post_init__(self) -> None:
        count = NUMBERS_OF[self.read]
        if len(self.of) != count:
            raise ValueError(f"{self.read!r} is of {count} numbers; of = {list(self.of)}")

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
        self.check_circumstances(found)
        first = found[self.of[0]]
        if len(self.of) == 1:
            return self.read_one(first)
        return self.compare(first, found[self.of[1]])

    def check_circumstances(self, found: Numbers) -> None:
        """Raise NoNumber where what a number is to be of did not happen."""
        if self.read == "lost" and not min(found["recoveries"]):
            raise NoNumber("memory did not run out within the limit, so nothing had to be halved")
        if self.read == "collected":
            ran_while_off = max(found["gc_off_collections"])
            was_called = min(found["gc_every_2_collections"])
            if ran_while_off or not was_called:
                raise NoNumber("the collector ran where it was off, or did not where it was called")

    def read_one(self, values: list[float]) -> Effect:
        """Return what one number of each process says."""
        if self.read == "error":
            return self.summarize([abs(value / self.right - 1) for value in values])
        if self.read == "mean ratio":
            return average_ratios(values)
        return self.summarize(values)

    def compare(self, first: list[float], second: list[float]) -> Effect:
        """Return what two numbers of each process say together. Raises NoNumber."""
        pairs = list(zip(first, second, strict=True))
        if self.read == "difference":
            return self.summarize([value - other for value, other in pairs])
        if self.read == "seen":
            if max(second) >= 1:
                raise NoNumber(f"{self.of[1]} misses nothing of the peak that could be found")
            return self.summarize([(share - other) / (1 - other) for share, other in pairs])
        if not min(second):
            raise NoNumber(f"{self.of[1]} is nothing, and a ratio of it none")
        ratios = [max(value, self.at_least) / base for value, base in pairs]
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
