"""How an effect is computed: what is taken from a record (`samples.py`), of which cases, and how they are compared.

An interval is a bootstrap's where there are samples (times); where there are none (bytes), it reaches from the smallest to the
largest value, widened by the instrument's resolution.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from analysis.claims.rule import Effect
from analysis.claims.samples import CONFIDENCE, Estimate, Quantity
from analysis.lower_bound import lower_bound
from analysis.selection import comparable_times
from framebench.records.probed import Probed
from framebench.records.record import Record
from framebench.suite.case import Case, declared
from framebench.suite.hypothetical import named
from models import spec


class Nothing(Exception):
    """The records are there, but do not hold the number that a measure needs; the message says which."""


class Drifted(Nothing):
    """Step times on a processor that were measured too far apart to be compared."""


@dataclass(frozen=True)
class Ref:
    """A case in any size: `shift` counts declared batches up or down from the size's base."""

    workload: str
    framework: str
    scenario: str
    strategy: str
    shift: int = 0

    def at(self, size: str) -> Case | None:
        """The case in this size, if it has such a batch."""
        preset = spec.workload(self.workload).preset(size)
        place = preset.batches.index(preset.base) + self.shift
        if not 0 <= place < len(preset.batches):
            return None
        case = Case(self.workload, self.framework, self.scenario, self.strategy, preset.batches[place], size)
        return case if declared(case) else None


def sweep(workload: str, framework: str, scenario: str, strategy: str, size: str) -> list[Case]:
    """The case at every declared batch of a size, the smallest first."""
    preset = spec.workload(workload).preset(size)
    return [Case(workload, framework, scenario, strategy, batch, size) for batch in preset.batches]


class Store(Protocol):
    """What was measured on one machine."""

    def records(self, case: Case) -> list[Record]: ...

    def probe(self, name: str) -> Probed | None: ...


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

    def estimate(self, store: Store, case: Case) -> Estimate:
        found = self.quantity.estimate(store.records(case))
        if found is None:
            raise Nothing(f"the records of {case.id} have no {self.quantity.name}")
        return found


def all_of(refs: list[Ref], size: str) -> list[Case]:
    found = [ref.at(size) for ref in refs]
    return [case for case in found if case] if all(found) else []


@dataclass(frozen=True)
class Ratio(OfCases):
    """Change / base."""

    change: Ref
    base: Ref
    form: str = "change"

    def cases(self, size: str) -> list[Case]:
        return all_of([self.base, self.change], size)

    def effect(self, store: Store, size: str) -> Effect:
        base, change = (self.estimate(store, case) for case in self.cases(size))
        if base.instrument != change.instrument:
            raise Nothing(f"peaks by {base.instrument} and {change.instrument} cannot be compared")
        return quotient(change, base)


def quotient(change: Estimate, base: Estimate) -> Effect:
    """Raises Nothing where the base is zero, and Drifted."""
    fair(change, base)
    if base.low <= 0:
        raise Nothing(f"{change.value:g} / {base.value:g} is no ratio")
    if change.draws is not None and base.draws is not None:
        return percentiles(change.value / base.value, change.draws / base.draws)
    return Effect(change.value / base.value, change.low / base.high, change.high / base.low)


def fair(*times: Estimate) -> None:
    """Whether their times may be compared. Raises Drifted."""
    taken = [moment for one in times for moment in one.taken]
    if taken and not comparable_times(*taken):
        raise Drifted(f"step times of {min(taken):%Y-%m-%d %H:%M} and {max(taken):%Y-%m-%d %H:%M} UTC have no ratio")


def percentiles(value: float, draws: np.ndarray) -> Effect:
    low, high = np.percentile(draws, [50 - 50 * CONFIDENCE, 50 + 50 * CONFIDENCE])
    return Effect(value, min(float(low), value), max(float(high), value))


@dataclass(frozen=True)
class Value(OfCases):
    """The quantity itself, of one case."""

    ref: Ref
    form: str = "count"

    def cases(self, size: str) -> list[Case]:
        return all_of([self.ref], size)

    def effect(self, store: Store, size: str) -> Effect:
        found = self.estimate(store, self.cases(size)[0])
        return Effect(found.value, found.low, found.high)


@dataclass(frozen=True)
class Apart(OfCases):
    """How far change and base differ: |change / base - 1|."""

    change: Ref
    base: Ref
    form: str = "error"

    def cases(self, size: str) -> list[Case]:
        return all_of([self.base, self.change], size)

    def effect(self, store: Store, size: str) -> Effect:
        base, change = (self.estimate(store, case) for case in self.cases(size))
        ratio = quotient(change, base)
        ends = abs(ratio.low - 1), abs(ratio.high - 1)
        nearest = 0.0 if ratio.low <= 1 <= ratio.high else min(ends)
        return Effect(abs(ratio.value - 1), nearest, max(ends))


@dataclass(frozen=True)
class Difference(OfCases):
    """Change - base: for shares, of which one may be zero."""

    change: Ref
    base: Ref
    form: str = "points"

    def cases(self, size: str) -> list[Case]:
        return all_of([self.base, self.change], size)

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
        found = sweep(self.workload, self.framework, self.scenario, self.strategy, size)
        return found if len(found) > 1 else []

    def points(self, store: Store, size: str) -> list[tuple[int, Estimate]]:
        return [(case.batch, self.estimate(store, case)) for case in self.cases(size)]


@dataclass(frozen=True)
class Exponent(OfSweep):
    """How the quantity grows from the smallest batch to the largest, both as logarithms: 1 is proportional, 0 constant.

    Of the two ends alone: what lies between strays from a straight line by its nature, which is no uncertainty of the growth.
    """

    def effect(self, store: Store, size: str) -> Effect:
        points = self.points(store, size)
        (small, first), (large, last) = points[0], points[-1]
        fair(first, last)
        if min(first.low, last.low) <= 0:
            raise Nothing(f"{self.quantity.name} is not positive at every batch")
        run = math.log(large / small)
        growth = (last.value / first.value, last.low / first.high, last.high / first.low)
        return Effect(*(math.log(ratio) / run for ratio in growth))


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
        found = self.points(store, size)
        first, last = found[0][1], found[-1][1]
        return Effect(first.value - last.value, first.low - last.high, first.high - last.low)


@dataclass(frozen=True)
class OfProbe:
    """A number from a probe's result by a function of it."""

    probe: str
    of: Callable[[dict[str, Any]], Effect]
    form: str = "number"

    @property
    def about(self) -> str:
        return f"{self.of.__name__} by a probe"

    def cases(self, size: str) -> list[Case]:
        return []

    def effect(self, store: Store, size: str) -> Effect:
        found = store.probe(self.probe)
        if found is None:
            raise Nothing(f"probe {self.probe} was not run")
        return self.of(found.found)


@dataclass(frozen=True)
class Predicted:
    """Change / base of the activations that the analytic lower bound counts (analysis/lower_bound.py), at any batch. Nothing is
    measured: there is no interval, and arms of it never decide."""

    change: str  # full case ids
    base: str
    form: str = "change"
    probe: str = ""
    about: str = "predicted activations"

    def cases(self, size: str) -> list[Case]:
        return []

    def effect(self, store: Store, size: str) -> Effect:
        change, base = (lower_bound(named(case)).activations for case in (self.change, self.base))
        return Effect(*[change / base] * 3)
