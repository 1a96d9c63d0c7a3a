"""How an effect is computed: what is taken from a record (`samples.py`), of which cases, and how they are compared.

Step times are compared within blocks (`framebench/analysis/blocks.py`); what shares no block has no ratio.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

from framebench.analysis import statistics
from framebench.claims.plans import Plan
from framebench.claims.probed_record import Probed
from framebench.claims.refs import Ref, all_of, place, sweep
from framebench.claims.rule import Effect
from framebench.claims.samples import TIME, Estimate, Quantity
from framebench.records.record import Record
from framebench.suite.case import Case


class Nothing(Exception):
    """The records are there, but do not hold the number that a measure needs; the message says which."""


class Unpaired(Nothing):
    """Step times that were never taken in one block."""


class Outdated(Nothing):
    """A probe's result that an older program of it gave."""


class DoesNotRun(Nothing):
    """A snippet that ends with an error; the message is the error."""


class Store(Protocol):
    """What was measured on one machine."""

    def records(self, case: Case) -> list[Record]: ...

    def time_ratio(self, base: Case, change: Case) -> statistics.Ratio | None:
        """Of step times; None if the two share no block."""

    def probe(self, name: str) -> Probed | None: ...

    def plan(self, case: Case) -> Plan | None:
        """What the case needs on the card of `plans.CARD`, if that was planned."""

    def reported_plan(self, release: str, program: str) -> dict[str, int]:
        """Planned bytes of a user's program there, by variant."""


class Measure(Protocol):
    """`cases` are what it needs in a size (empty if the size has no such batches), `probe` the probe it needs, if any."""

    @property
    def form(self) -> str:
        """How the number is shown: change, number, count, share, points or error."""

    @property
    def probe(self) -> str: ...

    @property
    def about(self) -> str:
        """What is measured and how: numbers of the same kind may be summed up."""

    def cases(self, size: str) -> list[Case]: ...

    def where(self, size: str) -> str:
        """Batches and size that are compared: `b8/cpu`."""

    def effect(self, store: Store, size: str) -> Effect:
        """Raises Nothing."""


@dataclass(frozen=True)
class OfCases:
    """What measures of cases have in common."""

    quantity: Quantity

    @property
    def probe(self) -> str:
        return ""

    @property
    def about(self) -> str:
        return f"{type(self).__name__} of {self.quantity.name}"

    def cases(self, size: str) -> list[Case]:
        raise NotImplementedError

    def where(self, size: str) -> str:
        return place(self.cases(size))

    def estimate(self, store: Store, case: Case) -> Estimate:
        estimated = self.quantity.estimate(store.records(case))
        if estimated is None:
            raise Nothing(f"the records of {case.id} have no {self.quantity.name}")
        return estimated


@dataclass(frozen=True)
class _OfTwo(OfCases):
    """What measures of two cases have in common."""

    change: Ref
    base: Ref
    form: str = "change"

    def cases(self, size: str) -> list[Case]:
        return all_of([self.base, self.change], size)


@dataclass(frozen=True)
class Ratio(_OfTwo):
    """Change / base."""

    def effect(self, store: Store, size: str) -> Effect:
        if self.quantity is TIME:
            return in_blocks(store, *self.cases(size))
        base, change = (self.estimate(store, case) for case in self.cases(size))
        if base.instrument != change.instrument:
            raise Nothing(f"peaks by {base.instrument} and {change.instrument} cannot be compared")
        return quotient(change, base)


def in_blocks(store: Store, base: Case, change: Case) -> Effect:
    """The ratio of step times, change / base. Raises Unpaired."""
    relative_peak = store.time_ratio(base, change)
    if relative_peak is None:
        raise Unpaired(f"{base.id} and {change.id} share no block, so their times have no ratio")
    if relative_peak.low is None or relative_peak.high is None:  # fewer blocks than an interval takes
        return Effect(relative_peak.value, -math.inf, math.inf)
    return Effect(relative_peak.value, relative_peak.low, relative_peak.high)


def quotient(change: Estimate, base: Estimate) -> Effect:
    """Raises Nothing where the base may be zero, as far as its instrument can tell."""
    if base.low <= 0:
        raise Nothing(f"{change.value:g} / {base.value:g} is no ratio: the base may be zero by {base.instrument}")
    return Effect(change.value / base.value, change.low / base.high, change.high / base.low)


@dataclass(frozen=True)
class Value(OfCases):
    """The quantity itself, of one case."""

    ref: Ref
    form: str = "count"

    def cases(self, size: str) -> list[Case]:
        return all_of([self.ref], size)

    def effect(self, store: Store, size: str) -> Effect:
        estimated = self.estimate(store, self.cases(size)[0])
        return Effect(estimated.value, estimated.low, estimated.high)


@dataclass(frozen=True)
class Apart(_OfTwo):
    """How far change and base differ: |change / base - 1|."""

    form: str = "error"

    def effect(self, store: Store, size: str) -> Effect:
        base, change = (self.estimate(store, case) for case in self.cases(size))
        return apart(quotient(change, base))


def apart(ratio: Effect) -> Effect:
    """How far a ratio is from 1, to either side."""
    ends = abs(ratio.low - 1), abs(ratio.high - 1)
    nearest = 0.0 if ratio.low <= 1 <= ratio.high else min(ends)
    return Effect(abs(ratio.value - 1), nearest, max(ends))


@dataclass(frozen=True)
class Difference(_OfTwo):
    """Change - base: for shares, of which one may be zero."""

    form: str = "points"

    def effect(self, store: Store, size: str) -> Effect:
        base, change = (self.estimate(store, case) for case in self.cases(size))
        return Effect(change.value - base.value, change.low - base.high, change.high - base.low)


@dataclass(frozen=True)
class OfTheWay(OfCases):
    """What part of the difference between `high` and `low` the change saves of `high`: 1 is all of it."""

    change: Ref
    high: Ref
    low: Ref
    form: str = "number"

    def cases(self, size: str) -> list[Case]:
        return all_of([self.high, self.low, self.change], size)

    def effect(self, store: Store, size: str) -> Effect:
        high, low, change = (self.estimate(store, case) for case in self.cases(size))
        if high.low <= low.high:
            raise Nothing(f"there is no difference to save: {high.value:.3g} and {low.value:.3g} bytes")

        def part(h: float, m: float, c: float) -> float:
            return (h - c) / (h - m)

        ends = [part(h, m, c) for h in (high.low, high.high) for m in (low.low, low.high) for c in (change.low, change.high)]
        return Effect(part(high.value, low.value, change.value), min(ends), max(ends))


@dataclass(frozen=True)
class OfSweep(OfCases):
    """What measures of a batch sweep have in common: the baseline or another strategy at every declared batch."""

    workload: str
    framework: str
    scenario: str
    strategy: str
    form: str = "number"

    def cases(self, size: str) -> list[Case]:
        swept_cases = sweep(self.workload, self.framework, self.scenario, self.strategy, size)
        return swept_cases if len(swept_cases) > 1 else []

    def points(self, store: Store, size: str) -> list[tuple[int, Estimate]]:
        return [(case.batch, self.estimate(store, case)) for case in self.cases(size)]


@dataclass(frozen=True)
class Exponent(OfSweep):
    """How the quantity grows from the smallest batch to the largest, both as logarithms: 1 is proportional, 0 constant.

    Of the two ends alone: what lies between strays from a straight line by its nature, which is no uncertainty of the growth.
    """

    def effect(self, store: Store, size: str) -> Effect:
        points = self.points(store, size)
        return growth(points[0], points[-1])


def growth(small: tuple[int, Estimate], large: tuple[int, Estimate]) -> Effect:
    """The exponent between two batches. Raises Nothing."""
    (batch, first), (larger, last) = small, large
    if min(first.low, last.low) <= 0:
        raise Nothing("what grows is not positive at every batch")
    ratio = quotient(last, first)
    return Effect(*(math.log(end) / math.log(larger / batch) for end in ratio))


@dataclass(frozen=True)
class Steepest(OfSweep):
    """The largest exponent between successive batches: where growth is no power law, the two ends of a sweep would hide it."""

    def effect(self, store: Store, size: str) -> Effect:
        return max((growth(*pair) for pair in pairwise(self.points(store, size))), key=lambda step: step.value)


@dataclass(frozen=True)
class SmallestStep(OfSweep):
    """The least ratio of the quantity at a batch to that at the next smaller one: below 1, a larger batch needs less."""

    form: str = "change"

    def effect(self, store: Store, size: str) -> Effect:
        steps = [quotient(larger, smaller) for (_, smaller), (_, larger) in pairwise(self.points(store, size))]
        return min(steps, key=lambda step: step.value)


@dataclass(frozen=True)
class Fall(OfSweep):
    """The quantity at the smallest batch less that at the largest: by how much it falls."""

    form: str = "points"

    def effect(self, store: Store, size: str) -> Effect:
        sweep_points = self.points(store, size)
        first, last = sweep_points[0][1], sweep_points[-1][1]
        return Effect(first.value - last.value, first.low - last.high, first.high - last.low)


@dataclass(frozen=True)
class OfProbe:
    """A number from a probe's result by a function of it."""

    probe: str
    of: Callable[[dict[str, Any]], Effect]
    form: str = "number"
    what: str = ""  # the batch, or how much of what: `b4`

    @property
    def about(self) -> str:
        return f"{self.of.__name__} by a probe"

    def where(self, size: str) -> str:
        return f"{self.what}/{size}" if self.what.startswith("b") else self.what

    def cases(self, size: str) -> list[Case]:
        return []

    def effect(self, store: Store, size: str) -> Effect:
        probe_record = store.probe(self.probe)
        if probe_record is None:
            raise Nothing(f"probe {self.probe} was not run")
        if probe_record.error:
            raise DoesNotRun(probe_record.error)
        try:
            return self.of(probe_record.found)
        except KeyError as missing:
            raise Outdated(f"the result of probe {self.probe} is an older one's, without {missing}") from None
