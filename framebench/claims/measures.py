"""How the number of a measurement is computed, from cases, a probe or plans.

Step times are compared within blocks (`framebench/analysis/blocks.py`); what shares no block has no
ratio.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, TypeGuard

from framebench.claims import plans
from framebench.claims.plans import GPU, Plan, bound_bytes
from framebench.claims.probed import Reading
from framebench.claims.refs import Ref, describe_batches, resolve_all, resolve_sweep
from framebench.claims.rule import Effect, NoNumber
from framebench.claims.samples import ADDED, PEAK, TIME, Estimate, Quantity
from framebench.claims.store import MachineResults
from framebench.suite.case import FULL_SIZE, Case

Form = Literal["change", "number", "count", "share", "points", "error"]
PLANNED_METRICS = {"peak": PEAK.name, "added": ADDED.name, "kept": "activations at the peak"}


class Unpaired(NoNumber):
    """Step times that were never taken in one block."""


class Outdated(NoNumber):
    """A probe's result that an older program of it gave."""


class DoesNotRun(NoNumber):
    """A listing that ends with an error; the message is the error."""


class Measure:
    """What a number is computed from; a subclass says how."""

    form: Form
    probe: str  # that it needs, if any
    is_planned = False

    @property
    def metric(self) -> str:
        """What is measured and how: numbers of the same metric may be summed up."""
        raise NotImplementedError

    def cases(self, size: str) -> list[Case]:
        """Return the cases that it needs in a size; none if the size lacks one of their batches."""
        return []

    def planned_cases(self) -> list[Case]:
        """Return the cases of which it needs a plan."""
        return []

    def describe_place(self, size: str) -> str:
        """Return which batches and size are compared: `b8/cpu`."""
        return describe_batches(self.cases(size))

    def effect(self, machine: MachineResults, size: str) -> Effect:
        """Return the number with its interval. Raises NoNumber if the results do not hold it."""
        raise NotImplementedError


def compare_times(machine: MachineResults, base: Case, candidate: Case) -> Effect:
    """Return the ratio of step times, candidate / base. Raises Unpaired."""
    ratio = machine.time_ratio(base, candidate)
    if ratio is None:
        raise Unpaired(f"{base.id} and {candidate.id} share no block, so their times have no ratio")
    if ratio.low is None or ratio.high is None:  # fewer blocks than an interval takes
        return Effect(ratio.value, -math.inf, math.inf)
    return Effect(ratio.value, ratio.low, ratio.high)


def divide(base: Estimate, candidate: Estimate) -> Effect:
    """Return candidate / base.

    Raises NoNumber where the base may be zero, as far as its instrument can tell.
    """
    if base.low <= 0:
        raise NoNumber(
            f"{candidate.value:g} / {base.value:g} is no ratio: the base may be zero "
            f"by {base.instrument}"
        )
    return Effect(
        candidate.value / base.value, candidate.low / base.high, candidate.high / base.low
    )


def divide_peaks(base: Estimate, candidate: Estimate) -> Effect:
    """Return candidate / base of one instrument. Raises NoNumber."""
    if base.instrument != candidate.instrument:
        raise NoNumber(f"peaks by {base.instrument} and {candidate.instrument} cannot be compared")
    return divide(base, candidate)


def subtract(base: Estimate, candidate: Estimate) -> Effect:
    """Return candidate - base: for shares, of which one may be zero."""
    return Effect(
        candidate.value - base.value, candidate.low - base.high, candidate.high - base.low
    )


def separate(base: Estimate, candidate: Estimate) -> Effect:
    """Return how far candidate and base differ, to either side: |candidate / base - 1|."""
    ratio = divide(base, candidate)
    ends = abs(ratio.low - 1), abs(ratio.high - 1)
    nearest = 0.0 if ratio.low <= 1 <= ratio.high else min(ends)
    return Effect(abs(ratio.value - 1), nearest, max(ends))


def compute_exponent(ratio: Effect, batches: float) -> Effect:
    """Return the exponent of growth by this ratio where the batch grows so many times.

    1 is proportional, 0 constant.
    """
    return Effect(*(math.log(end) / math.log(batches) for end in ratio))


def list_exponents(batches: Sequence[int], estimates: Sequence[Estimate]) -> list[Effect]:
    """Return the exponents of growth between each batch and the next, the smallest first.

    Where growth is no power law, the two ends of a sweep would hide it.
    """
    steps = []
    for (small, first), (large, last) in pairwise(zip(batches, estimates)):
        if min(first.low, last.low) <= 0:
            raise NoNumber("what grows is not positive at every batch")
        steps.append(compute_exponent(divide(first, last), large / small))
    return sorted(steps, key=lambda step: step.value)


def find_steepest(batches: Sequence[int], estimates: Sequence[Estimate]) -> Effect:
    """Return the largest exponent of growth between successive batches."""
    return list_exponents(batches, estimates)[-1]


def find_flattest(batches: Sequence[int], estimates: Sequence[Estimate]) -> Effect:
    """Return the smallest exponent of growth between successive batches."""
    return list_exponents(batches, estimates)[0]


def find_smallest_step(batches: Sequence[int], estimates: Sequence[Estimate]) -> Effect:
    """Return the least ratio of a batch to the next smaller one.

    Below 1, a larger batch needs less.
    """
    steps = [divide(smaller, larger) for smaller, larger in pairwise(estimates)]
    return min(steps, key=lambda step: step.value)


def find_fall(batches: Sequence[int], estimates: Sequence[Estimate]) -> Effect:
    """Return by how much the quantity falls from the smallest batch to the largest."""
    return subtract(estimates[-1], estimates[0])


class Operation(NamedTuple):
    """What is done with the quantities of the cases, in the order of a measure's `refs`."""

    metric: str
    form: Form
    compute: Callable[..., Effect]


OPERATIONS = {
    "value": Operation("Value", "count", lambda case: Effect(case.value, case.low, case.high)),
    "ratio": Operation("Ratio", "change", divide_peaks),
    "difference": Operation("Difference", "points", subtract),
    "apart": Operation("Apart", "error", separate),
}
# of a case at every declared batch
SWEEPS = {
    "steepest": Operation("Steepest", "number", find_steepest),
    "flattest": Operation("Flattest", "number", find_flattest),
    "smallest step": Operation("SmallestStep", "change", find_smallest_step),
    "fall": Operation("Fall", "points", find_fall),
}


@dataclass(frozen=True)
class OfCases(Measure):
    """A quantity of one case, of several (the base first), or of a sweep over batches."""

    kind: str  # of `OPERATIONS` or `SWEEPS`
    quantity: Quantity
    refs: tuple[Ref, ...]
    own_form: Form | None = None
    probe = ""

    @property
    def operation(self) -> Operation:
        """What is done with the quantities."""
        return SWEEPS.get(self.kind) or OPERATIONS[self.kind]

    @property
    def form(self) -> Form:  # type: ignore[override]
        return self.own_form or self.operation.form

    @property
    def metric(self) -> str:
        return f"{self.operation.metric} of {self.quantity.name}"

    def cases(self, size: str) -> list[Case]:
        if self.kind not in SWEEPS:
            return resolve_all(self.refs, size)
        cases = resolve_sweep(self.refs[0], size)
        return cases if len(cases) > 1 else []

    def effect(self, machine: MachineResults, size: str) -> Effect:
        cases = self.cases(size)
        if self.quantity is TIME:
            return compare_times(machine, *cases)
        estimates = []
        for case in cases:
            estimate = self.quantity.estimate(machine.records(case))
            if estimate is None:
                raise NoNumber(f"the records of {case.id} have no {self.quantity.name}")
            estimates.append(estimate)
        if self.kind in SWEEPS:
            return self.operation.compute([case.batch for case in cases], estimates)
        return self.operation.compute(*estimates)


def is_ratio(measure: Measure) -> TypeGuard[OfCases]:
    """Return whether a measure is a ratio of two cases."""
    return isinstance(measure, OfCases) and measure.kind == "ratio"


@dataclass(frozen=True)
class OfProbe(Measure):
    """A number from a probe's result."""

    probe: str
    reading: Reading
    form: Form = "number"
    what: str = ""  # the batch, or how much of what: `b4`

    @property
    def metric(self) -> str:
        return f"{self.reading.metric} by a probe"

    def describe_place(self, size: str) -> str:
        return f"{self.what}/{size}" if self.what.startswith("b") else self.what

    def effect(self, machine: MachineResults, size: str) -> Effect:
        result = machine.probe(self.probe)
        if result is None:
            raise NoNumber(f"probe {self.probe} was not run")
        if result.error:
            raise DoesNotRun(result.error)
        try:
            return self.reading.effect(result.found)
        except KeyError as missing:
            raise Outdated(
                f"the result of probe {self.probe} is an older one's, without {missing}"
            ) from None


@dataclass(frozen=True)
class OfPlans(Measure):
    """A measure of full-size cases as they are planned for a GPU that is not here.

    Nothing of it was measured.
    """

    probe = ""
    is_planned = True

    def describe_place(self, size: str) -> str:
        return f"{describe_batches(self.planned_cases())}, {GPU}"

    def find_plans(self, machine: MachineResults) -> list[Plan]:
        """Return the plan of each case. Raises NoNumber."""
        found = []
        for case in self.planned_cases():
            plan = machine.plan(case)
            if plan is None:
                raise NoNumber(f"{case.id} was not planned for {GPU}")
            if plan.reason:
                raise NoNumber(f"{case.id} on {GPU}: {plan.reason}")
            found.append(plan)
        return found


@dataclass(frozen=True)
class Planned(OfPlans):
    """Candidate / base as planned.

    Or the exponent of the growth from the base's batch to the candidate's. The interval is the
    prediction's published error, taken against the ratio on both sides.
    """

    quantity: plans.Quantity
    candidate: Ref
    base: Ref
    is_growth: bool = False

    @property
    def form(self) -> Form:  # type: ignore[override]
        return "number" if self.is_growth else "change"

    @property
    def metric(self) -> str:
        """As of what is measured: they are summed up together."""
        return f"{'Exponent' if self.is_growth else 'Ratio'} of {PLANNED_METRICS[self.quantity]}"

    def planned_cases(self) -> list[Case]:
        return resolve_all((self.base, self.candidate), FULL_SIZE)

    def effect(self, machine: MachineResults, size: str) -> Effect:
        base, candidate = self.planned_cases()
        base_plan, plan = self.find_plans(machine)
        ratio = plans.divide_plans(plan, base_plan, self.quantity)
        return compute_exponent(ratio, candidate.batch / base.batch) if self.is_growth else ratio


@dataclass(frozen=True)
class PlannedShare(OfPlans):
    """The planned peak over the memory that another GPU has: 1 fills it."""

    ref: Ref
    limit_bytes: int
    form: Form = "share"
    metric = "planned peak over the GPU's memory"

    def planned_cases(self) -> list[Case]:
        return resolve_all((self.ref,), FULL_SIZE)

    def effect(self, machine: MachineResults, size: str) -> Effect:
        (plan,) = self.find_plans(machine)
        low, value, high = bound_bytes(plan, "peak")
        return Effect(value / self.limit_bytes, low / self.limit_bytes, high / self.limit_bytes)


@dataclass(frozen=True)
class PlannedReport(OfPlans):
    """What the candidate saves of the base in a user's program, as a release plans it.

    The plan itself is what is asked for, so that there is no error.
    """

    release: str
    program: str
    candidate: str
    base: str
    form: Form = "share"
    metric = "share of the planned bytes"

    def describe_place(self, size: str) -> str:
        return f"{GPU}, JAX {self.release}"

    def effect(self, machine: MachineResults, size: str) -> Effect:
        planned = plans.read_report(machine.results.root, self.release, self.program)
        if not planned.get(self.base) or self.candidate not in planned:
            raise NoNumber(f"{self.program} was not planned by JAX {self.release}")
        saved = 1 - planned[self.candidate] / planned[self.base]
        return Effect(saved, saved, saved)
