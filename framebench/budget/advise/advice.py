"""Which strategies fit into a budget of memory, fastest first: by a search under a limit, by
records, or predicted.

Every candidate says which. A speed is always a measured one, and candidates are ranked only by
speeds of machines whose instruments passed their calibration. Records that are not `ok`, not
verified, or whose strategy had no confirmed effect support no advice.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from framebench.analysis.answers import select_rows
from framebench.analysis.blocks import Blocks
from framebench.analysis.frames import Row
from framebench.analysis.peaks import Peak, choose_peak, find_fault, select_evidence
from framebench.analysis.results import NoRecords
from framebench.analysis.searches import NO_SEARCHES, CaseSearches, Searches
from framebench.analysis.statistics import Ratio
from framebench.models import spec
from framebench.strategies.registry import list_used
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case, find_first_batch, is_declared
from framebench.suite.hypothetical import Described

LARGEST_BATCH = 2**16  # samples

SortOrder = Literal["speed", "memory", "batch"]
Judge = Literal["search", "record", "prediction"]


@dataclass(frozen=True)
class Question:
    """What advice is asked for.

    Without a `batch` it is the largest that fits. `shape` is the configuration of a model that is
    only described.
    """

    workload: str
    scenario: str
    budget: int  # bytes
    frameworks: tuple[str, ...] = FRAMEWORKS
    batch: int | None = None
    size: str = "cpu"
    shape: Any = None  # each workload has a type of its own
    by: SortOrder = "speed"
    strategies: frozenset[str] | None = None  # these alone

    @property
    def is_described(self) -> bool:
        """Return whether the model is only described by its number of parameters."""
        return self.shape is not None

    def includes(self, framework: str, strategy: str) -> bool:
        """Return whether the answer may name this strategy."""
        return framework in self.frameworks and (
            self.strategies is None or strategy in self.strategies
        )

    def case(self, framework: str, strategy: str, batch: int) -> Case:
        """Return the case of a strategy at a batch."""
        parts = self.workload, framework, self.scenario, strategy, batch, self.size
        if self.is_described:
            return Described(*parts, shape=self.shape)
        return Case(*parts)


@dataclass(frozen=True)
class StrategyEvidence:
    """What is known of one strategy in one framework."""

    rows: list[Row]  # usable ones of one machine and version, by batch
    timed: tuple[Row, ...]  # rows of one machine that say how fast it is

    def find_searches(self, case: Case, searches: Searches) -> CaseSearches:
        """Return the searches under a limit in the version that the rows are of."""
        row = self.rows[-1]
        return searches.find_searches(case, row.machine, row.framework_version, row.device)


@dataclass(frozen=True)
class Candidate:
    """One strategy at one batch.

    `speed` is a measured row that stands for it, perhaps of another batch or size.
    """

    case: Case
    peak: Peak
    fits: bool  # into the budget of the question
    judge: Judge  # what decided whether it fits
    evidence: Row  # the newest row that the peak rests on
    timed: tuple[Row, ...]  # all that have a throughput
    speed: Row | None

    @property
    def name(self) -> str:
        """Return framework and strategy."""
        return f"{self.case.framework} {self.case.strategy}"

    @property
    def throughput(self) -> float:
        """Return samples or tokens per second for ranking; 0 if not measured, or by instruments
        without calibration.
        """
        if self.speed is None or not is_calibrated(self.speed):
            return 0
        return self.speed.throughput or 0


@dataclass(frozen=True)
class BudgetAdvice:
    """The answer.

    What fits is in the order that the question asks for, what does not fit by what it needs.
    """

    question: Question
    machine: str
    fitting: list[Candidate]
    changed: list[Candidate]  # they fit, but compute something else
    beyond: list[Candidate]
    left_out: dict[str, str]  # case -> why its record supports no advice
    unmeasured: list[str]  # cases that a CPU could run and that have no record

    @property
    def candidates(self) -> list[Candidate]:
        """Return all, those that fit first."""
        return [*self.fitting, *self.changed, *self.beyond]


@dataclass(frozen=True)
class Change:
    """From what the user has to what fits with the least loss of speed, in the same framework if
    anything fits there.
    """

    base: Candidate
    to: Candidate | None
    # step time of the new over the old, at the batch nearest to the new that blocks have both at
    time: Ratio | None = None

    @property
    def speed(self) -> float | None:
        """Return the throughput of the new over the old."""
        return 1 / self.time.value if self.time else None


def is_calibrated(row: Row) -> bool:
    """Return whether the machine's instruments measured known sizes and durations right."""
    return row.calibration == "passed"


def advise(
    of_machines: Sequence[Sequence[Row]], question: Question, searches: Searches = NO_SEARCHES
) -> BudgetAdvice:
    """Return what fits, from the rows of this machine and then of others, and from all searches.

    Strategies that only test an article's sentence are left out. Speeds are those of the machine
    that timed most strategies. Raises NoRecords.
    """
    relevant = [select_relevant(rows, question) for rows in of_machines]
    rows = select_rows(relevant)
    if not rows:
        size = "" if question.is_described else f"/*/*/{question.size}"
        cases = f"{question.workload}/*/{question.scenario}{size}"
        raise NoRecords(f"no records of {cases}; measure first: framebench run '{cases}'")
    speeds = max(relevant, key=count_timed_strategies)

    candidates = make_candidates(rows, speeds, question, searches)
    fitting = sort_candidates([c for c in candidates if c.fits], question.by)
    too_large = sort_by_need([c for c in candidates if not c.fits])
    return BudgetAdvice(
        question,
        (speeds or rows)[0].machine,
        fitting=[c for c in fitting if c.case.same_mathematics],
        changed=[c for c in fitting if not c.case.same_mathematics],
        beyond=[c for c in too_large if c.case.same_mathematics],
        left_out=list_left_out(rows, question),
        unmeasured=list_unmeasured(rows, question),
    )


def select_relevant(rows: Sequence[Row], question: Question) -> list[Row]:
    """Return the rows of the strategies and the size in question; of every size for a model that is
    only described.
    """
    relevant = []
    for row in rows:
        same_size = question.is_described or row.size == question.size
        if same_size and question.includes(row.framework, row.strategy) and not row.only_for_claims:
            relevant.append(row)
    return relevant


def count_timed_strategies(rows: Sequence[Row]) -> int:
    """Return how many strategies, counted in each framework, have a speed."""
    return len({(row.framework, row.strategy) for row in rows if row.throughput})


def make_candidates(
    rows: Sequence[Row], speeds: Sequence[Row], question: Question, searches: Searches
) -> list[Candidate]:
    """Return one candidate for each framework and strategy with usable rows, at the batch in
    question or the largest.
    """
    candidates = []
    for framework, strategy in sorted(
        {(row.framework, row.strategy) for row in rows if not find_fault(row)}
    ):
        case = question.case(framework, strategy, question.batch or 1)
        if question.is_described and not case.same_mathematics:
            continue
        evidence = collect_evidence(rows, speeds, case, question)
        if question.batch is None:
            candidates.append(find_largest_batch(evidence, case, question.budget, searches))
        elif question.batch % case.plan.micro_batches == 0:
            candidates.append(make_candidate(evidence, case, question.budget, searches))
    return candidates


def collect_evidence(
    rows: Sequence[Row], speeds: Sequence[Row], case: Case, question: Question
) -> StrategyEvidence:
    """Return the rows that bear on a case; a speed on another kind of device, or of another model,
    does not.
    """
    usable = select_evidence(rows, case)
    timed = []
    if not question.is_described:
        for row in speeds:
            same_strategy = (row.framework, row.strategy) == (case.framework, case.strategy)
            if (
                same_strategy
                and row.device == usable[-1].device
                and row.throughput
                and not find_fault(row)
            ):
                timed.append(row)
    return StrategyEvidence(usable, tuple(timed))


def make_candidate(
    evidence: StrategyEvidence, case: Case, budget: int, searches: Searches
) -> Candidate:
    """Return a case with its peak, whether it fits, and the speed of the nearest batch.

    A search that tells whether it fits counts more than records and predictions.
    """

    def distance(row: Row) -> float:
        return abs(math.log(row.batch / case.batch))

    rows = evidence.rows
    newest = max(rows, key=lambda row: row.measured_at)
    exact = [row for row in rows if row.case == case.id]
    peak = choose_peak(rows, case, searches)
    judge: Judge = "record" if peak.kind == "measured" else "prediction"
    if evidence.find_searches(case, searches).check_fits(case.batch, budget) is not None:
        judge = "search"
    return Candidate(
        case,
        peak,
        fits=peak.needs <= budget,
        judge=judge,
        evidence=exact[0] if exact else newest,
        timed=evidence.timed,
        speed=min(evidence.timed, key=distance, default=None),
    )


def find_largest_batch(
    evidence: StrategyEvidence, case: Case, budget: int, searches: Searches
) -> Candidate:
    """Return a strategy at the largest batch that fits; where none does, at the smallest there is.

    Its speed is the best of the batches up to there, since a smaller one may be used as well. So no
    strategy becomes slower by a larger budget.
    """
    smallest = case.plan.micro_batches
    for batch in sorted(list_promising_batches(evidence, case, budget, searches), reverse=True):
        candidate = make_candidate(evidence, replace(case, batch=batch), budget, searches)
        if candidate.fits:
            break
    else:
        candidate = make_candidate(evidence, replace(case, batch=smallest), budget, searches)

    within = [
        row for row in candidate.timed if row.batch <= candidate.case.batch
    ] or candidate.timed[:1]
    fastest = max(within, key=lambda row: (is_calibrated(row), row.throughput or 0), default=None)
    return replace(candidate, speed=fastest)


def list_promising_batches(
    evidence: StrategyEvidence, case: Case, budget: int, searches: Searches
) -> set[int]:
    """Return the batches among which the largest that fits must be.

    Apart from the smallest, they are the largest by prediction, those measured, and what searches
    under a limit bound.
    """
    smallest = case.plan.micro_batches
    batches = range(smallest, LARGEST_BATCH + 1, smallest)

    def predict_need(batch: int) -> int:
        return choose_peak(evidence.rows, replace(case, batch=batch), searches).needs

    promising = {smallest, bisect_right(batches, budget, key=predict_need) * smallest}
    promising.update(row.batch for row in evidence.rows if row.size == case.size)
    tried = evidence.find_searches(case, searches)
    promising.add(tried.find_largest_fitting(budget))
    failing = tried.find_smallest_failing(budget)
    if failing is not None:
        promising.add(failing - smallest)
    return promising - {0}


def sort_candidates(candidates: Sequence[Candidate], by: SortOrder) -> list[Candidate]:
    """Return them fastest first, least memory first, or largest batch first."""
    if by == "memory":
        return sort_by_need(candidates)
    if by == "batch":
        return sorted(candidates, key=lambda c: (-c.case.batch, c.peak.needs, c.case))
    return sort_by_speed(candidates)


def sort_by_need(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return them by the budget that they would need, the smallest first."""
    return sorted(candidates, key=lambda c: (c.peak.needs, c.case))


def sort_by_speed(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return them fastest first, ties by the smaller need, and last those without a speed that
    counts.

    They are compared by the ratio to PyTorch's baseline if all were timed at one batch in blocks
    with it, since a machine drifts between blocks; otherwise by throughput. Without any speed the
    largest batch comes first.
    """
    speeds = [c.speed for c in candidates if c.speed and c.throughput]
    same_batch = len({(row.batch, row.size) for row in speeds}) == 1
    by_ratio = same_batch and all(row.torch_ratio for row in speeds)

    def sort_key(candidate: Candidate) -> tuple[float, int, float, Case]:
        if not by_ratio:
            slowness = -candidate.throughput
        elif candidate.speed and candidate.throughput:
            slowness = candidate.speed.torch_ratio or 0.0
        else:
            slowness = math.inf
        larger_batch = 0 if speeds else -candidate.case.batch
        return slowness, larger_batch, candidate.peak.needs, candidate.case

    return sorted(candidates, key=sort_key)


def list_left_out(rows: Sequence[Row], question: Question) -> dict[str, str]:
    """Return the cases of the size that is asked for that support no advice, with the reason."""
    left_out = {}
    for row in rows:
        fault = find_fault(row)
        if fault and row.size == question.size and row.status != "unsupported":
            left_out[row.case] = fault
    return left_out


def list_unmeasured(rows: Sequence[Row], question: Question) -> list[str]:
    """Return the cases of the question that a CPU could run and that have no record, at the first
    batch that they divide.
    """
    if question.is_described:
        return []
    measured = {(row.framework, row.strategy) for row in rows}
    usual_batch = spec.load_workload(question.workload).preset(question.size).base
    unmeasured = []
    for framework in question.frameworks:
        for strategy in list_used(question.scenario):
            if (framework, strategy) in measured or not question.includes(framework, strategy):
                continue
            batch = find_first_batch(question.case(framework, strategy, usual_batch))
            case = question.case(framework, strategy, batch)
            if is_declared(case) and case.support.supported and not case.support.gpu:
                unmeasured.append(case.id)
    return unmeasured


def find_change(
    advice: BudgetAdvice, framework: str, strategy: str, blocks: Blocks
) -> Change | None:
    """Return the change that costs least speed; None without records of what the user has."""
    current = [
        c for c in advice.candidates if (c.case.framework, c.case.strategy) == (framework, strategy)
    ]
    if not current:
        return None
    same_framework = [c for c in advice.fitting if c.case.framework == framework]
    best = same_framework or advice.fitting
    if not best:
        return Change(current[0], None)
    return Change(current[0], best[0], compare_step_times(current[0], best[0], blocks))


def compare_step_times(base: Candidate, to: Candidate, blocks: Blocks) -> Ratio | None:
    """Return the step time over the base's at the nearest batch that both were timed at in the same
    blocks.
    """
    base_cases = {(row.batch, row.size): row.case for row in base.timed}
    to_cases = {(row.batch, row.size): row.case for row in to.timed}
    shared = base_cases.keys() & to_cases.keys()
    for batch, size in sorted(shared, key=lambda at: (abs(at[0] - to.case.batch), at)):
        ratio = blocks.compare_cases(base_cases[batch, size], to_cases[batch, size])
        if ratio:
            return ratio
    return None


def find_largest_that_fits(
    of_machines: Sequence[Sequence[Row]], question: Question, searches: Searches = NO_SEARCHES
) -> Candidate | None:
    """Return the largest batch that any strategy of the same mathematics fits into the budget with.

    Raises NoRecords.
    """
    fitting = advise(of_machines, replace(question, batch=None), searches).fitting
    return max(fitting, key=lambda c: (c.case.batch, c.throughput), default=None)
