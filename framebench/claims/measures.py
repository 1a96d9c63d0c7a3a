"""How the number of a measurement is computed, from cases, from plans, or from a program's result.

Step times are compared within blocks (`framebench/analysis/blocks.py`); what shares no block has no
ratio.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter
from typing import Literal, TypeGuard

from framebench.analysis.statistics import Ratio, compare_blocks, compute_student_quantile
from framebench.claims import plans
from framebench.claims.plans import GPU, Plan
from framebench.claims.probed_record import Probed
from framebench.claims.rule import Effect, NoNumber
from framebench.claims.samples import (
    ADDED,
    COUNTED,
    PEAK,
    RESERVED,
    TIME,
    Estimate,
    SampledQuantity,
)
from framebench.claims.store import MachineResults
from framebench.models import spec
from framebench.records.record import Record
from framebench.suite.case import FULL_SIZE, Case, is_declared
from framebench.suite.sequences import drop_duplicates

Form = Literal["change", "number", "count", "share", "points", "error"]
# What is done with the quantities of the cases, and how the number is printed. Three are of a case
# at every declared batch:
# - flattest: the smallest exponent of growth between two successive batches
# - slope: what an added sample takes, over what it takes between the batches before; the smallest
# - bend: how far that ratio is from 1, either way; the largest
FORMS: dict[str, Form] = {
    "value": "count",
    "ratio": "change",
    "difference": "points",
    "flattest": "number",
    "slope": "change",
    "bend": "share",
}
FEWEST_BATCHES = {"flattest": 2, "slope": 3, "bend": 3}  # the fewest batches that each needs
PLANNED_METRICS = {
    "peak": PEAK.name,
    "added": ADDED.name,
    "activations": "activations at the peak",
    "weights": "bytes of weights",
}
REF = re.compile(
    r"(?P<scenario>\w+)/(?P<strategy>[\w+]+)"
    r"(@(b(?P<batch>\d+))?(?P<shift>-?\d+)?(x(?P<ranks>\d+))?)?"
)


class DoesNotRun(NoNumber):
    """A listing that ends with an error; the message is the error."""


@dataclass(frozen=True)
class Ref:
    """A case in any size."""

    workload: str
    framework: str
    scenario: str
    strategy: str
    shift: int = 0  # declared batches above the size's base
    ranks: int = 1
    batch: int = 0  # for a plan: this batch, whether a size declares it or not

    def find_case(self, size: str) -> Case | None:
        """Return the case in this size, or None if it has no such batch."""
        names = (self.workload, self.framework, self.scenario, self.strategy)
        if self.batch:
            return Case(*names, self.batch, size)
        workload = spec.load_workload(self.workload)
        if size not in workload.sizes:
            return None
        preset = workload.preset(size)
        index = preset.batches.index(preset.base) + self.shift
        if not 0 <= index < len(preset.batches):
            return None
        case = Case(*names, preset.batches[index], size, self.ranks)
        return case if is_declared(case) else None


def read_ref(text: str, workload: str, framework: str) -> Ref:
    """Return the case, of any size, that a text names in a workload and a framework.

    `train/fp32`; `train/fp32@-2`: two declared batches below the base; `train/ddp@x2`: over two
    ranks; `train/fp32@b16`: batch 16, of a plan; `unet3d/torch/train/fp32`: of that workload and
    framework. Raises ValueError.
    """
    if text.count("/") == 3:
        workload, framework, text = text.split("/", 2)
    match = REF.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} names no case, such as train/fp32@-1")
    return Ref(
        workload,
        framework,
        match["scenario"],
        match["strategy"],
        shift=int(match["shift"] or 0),
        ranks=int(match["ranks"] or 1),
        batch=int(match["batch"] or 0),
    )


def find_cases(refs: Sequence[Ref], size: str) -> list[Case]:
    """Return the cases in this size, or none if it lacks one of them."""
    cases = []
    for ref in refs:
        case = ref.find_case(size)
        if case is None:
            return []
        cases.append(case)
    return cases


def describe_batches(cases: Sequence[Case]) -> str:
    """Return `b8/cpu`, or of several batches `b8, b16, b32/cpu`; over ranks `b4, b4x2/cpu`."""
    if not cases:
        return ""
    batches = []
    for case in sorted(cases, key=attrgetter("batch", "ranks")):
        *_, batch, _size = case.id.split("/")
        batches.append(batch)
    return f"{', '.join(drop_duplicates(batches))}/{cases[0].size}"


class Measure:
    """A way to compute a number; each subclass is one kind."""

    form: Form
    refs: tuple[Ref, ...] = ()  # the cases of a comparison, the base first
    probe = ""  # the name of a program whose result it needs
    is_planned = False

    @property
    def metric(self) -> str:
        """Return what is measured and how; numbers of the same metric may be summed up."""
        raise NotImplementedError

    def list_cases(self, size: str) -> list[Case]:
        """Return the cases that it needs in a size, or none if the size lacks a batch of theirs."""
        return []

    def list_planned_cases(self) -> list[Case]:
        """Return the cases of which the measure needs a plan."""
        return []

    def select_records(self, machine: MachineResults, case: Case) -> list[Record]:
        """Return the records of a case that count."""
        return machine.get_records(case)

    def find_instrument(self, machine: MachineResults, size: str) -> str:
        """Return the instrument of memory that read the number, or "" for any other number."""
        return ""

    def describe_place(self, size: str) -> str:
        """Return which batches and size are compared: `b8/cpu`."""
        return describe_batches(self.list_cases(size))

    def compute_effect(self, machine: MachineResults, size: str) -> Effect:
        """Return the number with its interval. Raises NoNumber if the results do not hold it."""
        raise NotImplementedError

    def list_files(self, machine: MachineResults, size: str) -> list[str]:
        """Return the files behind the number, relative to the results folder."""
        raise NotImplementedError


@dataclass(frozen=True)
class CaseMeasure(Measure):
    """A quantity of one case, of two (the base first), or of a sweep over batches."""

    kind: str  # of `FORMS`
    quantity: SampledQuantity
    refs: tuple[Ref, ...]
    form: Form = "change"

    @property
    def metric(self) -> str:
        return f"{self.kind.capitalize()} of {self.quantity.name}"

    def list_cases(self, size: str) -> list[Case]:
        if self.kind not in FEWEST_BATCHES:
            return find_cases(self.refs, size)
        (ref,) = self.refs
        preset = spec.load_workload(ref.workload).sizes.get(size)
        if preset is None or len(preset.batches) < FEWEST_BATCHES[self.kind]:
            return []
        names = (ref.workload, ref.framework, ref.scenario, ref.strategy)
        return [Case(*names, batch, size) for batch in preset.batches]

    def select_records(self, machine: MachineResults, case: Case) -> list[Record]:
        if self.quantity.includes_wrong:
            return machine.list_newest_result(case)
        return machine.get_records(case)

    def find_instrument(self, machine: MachineResults, size: str) -> str:
        for case in self.list_cases(size):
            estimate = self.quantity.estimate(self.select_records(machine, case))
            if estimate is not None and estimate.instrument != COUNTED:
                return estimate.instrument
        return ""

    def compute_effect(self, machine: MachineResults, size: str) -> Effect:
        cases = self.list_cases(size)
        if self.quantity is TIME:  # seconds of two processes differ by more than most claims
            base_case, candidate_case = cases
            return compare_times(machine, base_case, candidate_case)
        estimates = []
        for case in cases:
            estimate = self.quantity.estimate(self.select_records(machine, case))
            if estimate is None:
                raise NoNumber(f"the records of {case.id} have no {self.quantity.name}")
            estimates.append(estimate)
        if self.kind == "value":
            (estimate,) = estimates
            return Effect(value=estimate.value, low=estimate.low, high=estimate.high)
        batches = [case.batch for case in cases]
        if self.kind == "flattest":
            return find_flattest(batches, estimates)
        if self.kind == "slope":
            return find_smallest(compare_slopes(batches, estimates))
        if self.kind == "bend":
            return find_bend(compare_slopes(batches, estimates))
        base, candidate = estimates
        if self.kind == "ratio":
            return compute_ratio(base, candidate)
        return compute_difference(base, candidate)

    def list_files(self, machine: MachineResults, size: str) -> list[str]:
        if self.quantity.includes_wrong:
            records = []
            for case in self.list_cases(size):
                records += self.select_records(machine, case)
            return machine.list_record_files(records)
        return machine.list_files(self.list_cases(size), timed=self.quantity is TIME)


def is_ratio(measure: Measure) -> TypeGuard[CaseMeasure]:
    """Return whether a measure is a ratio of two cases."""
    return isinstance(measure, CaseMeasure) and measure.kind == "ratio"


def compare_times(machine: MachineResults, base: Case, candidate: Case) -> Effect:
    """Return the ratio of step times, candidate / base. Raises NoNumber."""
    ratio = machine.compare_times(base, candidate)
    if ratio is None:
        raise NoNumber(f"{base.id} and {candidate.id} share no block, so their times have no ratio")
    return convert_ratio(ratio)


def convert_ratio(ratio: Ratio) -> Effect:
    """Return a ratio as an effect, without an interval if the ratio has none."""
    if ratio.low is None or ratio.high is None:
        return Effect.without_interval(ratio.value)
    return Effect(value=ratio.value, low=ratio.low, high=ratio.high)


def compute_ratio(base: Estimate, candidate: Estimate) -> Effect:
    """Return candidate / base.

    Raises NoNumber for two instruments, and if the base may be zero as far as its instrument can
    tell.
    """
    if base.instrument != candidate.instrument:
        raise NoNumber(f"peaks by {base.instrument} and {candidate.instrument} cannot be compared")
    # near zero the reading is within the instrument's error, so the ratio could be anything
    if base.low <= 0:
        raise NoNumber(
            f"{candidate.value:g} / {base.value:g} is no ratio: the base may be zero "
            f"by {base.instrument}"
        )
    return Effect(
        value=candidate.value / base.value,
        low=candidate.low / base.high,
        high=candidate.high / base.low,
    )


def compute_difference(base: Estimate, candidate: Estimate) -> Effect:
    """Return candidate - base. Unlike a ratio, it exists if the base is zero."""
    return Effect(
        value=candidate.value - base.value,
        low=candidate.low - base.high,
        high=candidate.high - base.low,
    )


def find_flattest(batches: Sequence[int], estimates: Sequence[Estimate]) -> Effect:
    """Return the smallest exponent of growth between a batch and the next.

    An exponent of 1 is proportional growth, and 0 is none. Each interval has its own, since an
    exponent between the smallest and the largest batch would hide where growth is no power law.
    Raises NoNumber.
    """
    exponents = []
    points = zip(batches, estimates, strict=True)
    for (batch, estimate), (next_batch, next_estimate) in pairwise(points):
        if min(estimate.low, next_estimate.low) <= 0:
            raise NoNumber("an exponent of growth needs numbers above zero at every batch")
        ratio = compute_ratio(estimate, next_estimate)
        # the logarithm to this base is the exponent
        base = next_batch / batch
        exponent = Effect(
            value=math.log(ratio.value, base),
            low=math.log(ratio.low, base),
            high=math.log(ratio.high, base),
        )
        exponents.append(exponent)
    return min(exponents, key=attrgetter("value"))


def compare_slopes(batches: Sequence[int], estimates: Sequence[Estimate]) -> list[Effect]:
    """Return the factors by which the bytes of an added sample change between two intervals.

    An interval lies between two successive batches. 1 is linear growth, with or without a constant
    part. Raises NoNumber.

    Args:
        batches: At least three, in ascending order.
        estimates: The bytes at each batch.
    """
    if len({estimate.instrument for estimate in estimates}) > 1:
        raise NoNumber("peaks by several instruments have no slope")
    slopes = []  # bytes of a sample
    points = zip(batches, estimates, strict=True)
    for (batch, estimate), (next_batch, next_estimate) in pairwise(points):
        added = compute_difference(estimate, next_estimate)
        samples = next_batch - batch
        slope = Effect(
            value=added.value / samples, low=added.low / samples, high=added.high / samples
        )
        slopes.append(slope)
    factors = []
    for slope, next_slope in pairwise(slopes):
        if slope.low <= 0 or next_slope.low <= 0:
            raise NoNumber("an added sample does not add bytes between all batches")
        factor = Effect(
            value=next_slope.value / slope.value,
            low=next_slope.low / slope.high,
            high=next_slope.high / slope.low,
        )
        factors.append(factor)
    return factors


def find_smallest(effects: Sequence[Effect]) -> Effect:
    """Return the smallest of several numbers, with the interval of the smallest."""
    return Effect(
        value=min(effect.value for effect in effects),
        low=min(effect.low for effect in effects),
        high=min(effect.high for effect in effects),
    )


def find_bend(ratios: Sequence[Effect]) -> Effect:
    """Return the largest distance of any ratio from 1, above or below."""
    value = low = high = 0.0
    for ratio in ratios:
        value = max(value, abs(ratio.value - 1))
        # the distance of the nearer end: 0 if the interval contains 1
        low = max(low, ratio.low - 1, 1 - ratio.high)
        high = max(high, abs(ratio.low - 1), abs(ratio.high - 1))
    return Effect(value=value, low=low, high=high)


@dataclass(frozen=True)
class PlannedRatio(Measure):
    """Candidate / base at full size as planned for a GPU that is not here: nothing was measured.

    The interval has room for the error of either prediction, by its kind.
    """

    quantity: plans.PlannedQuantity
    refs: tuple[Ref, ...]
    form: Form = "change"
    is_planned = True

    @property
    def metric(self) -> str:
        """Return the metric of the measured ratio, so that both are summed up together."""
        return f"Ratio of {PLANNED_METRICS[self.quantity]}"

    def list_planned_cases(self) -> list[Case]:
        return find_cases(self.refs, FULL_SIZE)

    def describe_place(self, size: str) -> str:
        return f"{describe_batches(self.list_planned_cases())}, {GPU}"

    def find_plans(self, machine: MachineResults) -> list[Plan]:
        """Return the plan of each case. Raises NoNumber."""
        case_plans = []
        for case in self.list_planned_cases():
            plan = machine.get_plan(case)
            if plan is None:
                raise NoNumber(f"{case.id} was not planned for {GPU}")
            if plan.reason:
                raise NoNumber(f"{case.id} on {GPU}: {plan.reason}")
            case_plans.append(plan)
        return case_plans

    def compute_effect(self, machine: MachineResults, size: str) -> Effect:
        # the base is the first of the two, as in `refs`
        base, candidate = self.find_plans(machine)
        return plans.divide_plans(base, candidate, self.quantity)

    def list_files(self, machine: MachineResults, size: str) -> list[str]:
        case_plans = [machine.get_plan(case) for case in self.list_planned_cases()]
        return [machine.make_relative(plan.file) for plan in case_plans if plan]


@dataclass(frozen=True)
class PlannedReport(Measure):
    """The share of the base that the candidate saves in a user's program, as a release plans it.

    The report is about the plan itself, so the number has no error.
    """

    release: str
    program: str
    candidate: str
    base: str
    form: Form = "share"
    metric = "share of the planned bytes"
    is_planned = True

    def describe_place(self, size: str) -> str:
        return f"{GPU}, JAX {self.release}"

    def compute_effect(self, machine: MachineResults, size: str) -> Effect:
        planned_bytes = plans.read_report(machine.results.root, self.release, self.program)
        # a base of 0 bytes has no share that could be saved
        if not planned_bytes.get(self.base) or self.candidate not in planned_bytes:
            raise NoNumber(f"{self.program} was not planned by JAX {self.release}")
        return Effect.exact(1 - planned_bytes[self.candidate] / planned_bytes[self.base])

    def list_files(self, machine: MachineResults, size: str) -> list[str]:
        file = plans.find_report(machine.results.root, self.release)
        if not file.exists():
            return []
        return [machine.make_relative(file)]


Read = Literal["value", "difference", "ratio", "share saved", "error", "ran"]


@dataclass(frozen=True)
class ProgramMeasure(Measure):
    """A number that a program has printed, once or in several fresh processes.

    - `value`, `difference`, `ratio`: of one number, or of two of the same process
    - `share saved`: the share by which the first number is smaller than the second
    - `error`: how far a number is from `right`, relative to it
    - `ran`: 1 if a listing that ran to its end has printed numbers, and otherwise 0
    """

    read: Read
    probe: str
    of: tuple[str, ...] = ()
    exact: bool = False  # every process counts exactly: the interval is smallest to largest
    right: float = 1.0
    form: Form = "number"
    file: str = ""  # what is run

    @property
    def metric(self) -> str:
        return f"{self.read.capitalize()} by a program"

    def describe_place(self, size: str) -> str:
        return f"({self.file})"

    def compute_effect(self, machine: MachineResults, size: str) -> Effect:
        result = machine.get_probe(self.probe)
        if result is None:
            raise NoNumber(f"{self.probe} was not run")
        if result.error:
            raise DoesNotRun(result.error)
        if self.read == "ran":
            ran = float(bool(result.found))
            return Effect.exact(ran)
        if not self.is_current(result):
            raise NoNumber(f"the result of {self.probe} is of an older program")
        return self.compute(*(result.found[name] for name in self.of))

    def is_current(self, result: Probed) -> bool:
        """Return whether the program as it is today gave a result.

        The result then has the names in `of`, or an error.
        """
        return bool(result.error) or set(self.of) <= result.found.keys()

    def compute(self, first: Sequence[float], second: Sequence[float] = ()) -> Effect:
        """Return the effect that `read` makes of the numbers that processes printed.

        `first` and `second` have a number for each process, of the one or two names in `of`. Raises
        NoNumber.
        """
        if self.read in ("ratio", "share saved"):
            return self.compare_by_process(first, second)
        values = list(first)
        if self.read == "difference":
            values = [left - right for left, right in zip(first, second, strict=True)]
        elif self.read == "error":
            values = [abs(value / self.right - 1) for value in first]
        return Effect.of_counts(values) if self.exact else average(values)

    def compare_by_process(self, first: Sequence[float], second: Sequence[float]) -> Effect:
        """Return first / second, or for `share saved` 1 - first / second. Raises NoNumber."""
        if min(second) <= 0:
            raise NoNumber(f"{self.of[1]} is zero or less, so there is no ratio to it")
        # each ratio is of one process, so what the process adds to both sides cancels
        ratios = [value / base for value, base in zip(first, second, strict=True)]
        if self.exact:
            return Effect.of_counts(ratios)
        log_ratios = [math.log(ratio) for ratio in ratios]
        mean = convert_ratio(compare_blocks(log_ratios))
        if self.read == "share saved":
            return Effect(value=1 - mean.value, low=1 - mean.high, high=1 - mean.low)
        return mean

    def list_files(self, machine: MachineResults, size: str) -> list[str]:
        return machine.list_files([], self.probe)


def average(values: Sequence[float]) -> Effect:
    """Return the mean over processes with Student's interval; without one for a single process."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Effect.without_interval(mean)
    # Student's, since the spread of five processes is known badly
    error = statistics.stdev(values) / math.sqrt(len(values))
    half = compute_student_quantile(len(values) - 1) * error
    return Effect(value=mean, low=mean - half, high=mean + half)


def choose_peak(measure: Measure, device: str) -> Measure:
    """Return the measure by which a peak is judged: on a GPU, the ratio of reserved bytes."""
    if device == "cpu" or not is_ratio(measure) or measure.quantity is not PEAK:
        return measure
    return replace(measure, quantity=RESERVED)
