"""Which strategies fit into a budget of memory, fastest first.

That a candidate fits was found by a search under a limit, by its records, or is predicted; `judge`
says which. A speed is always a measured one, and candidates are ranked only by
speeds of machines whose instruments passed their calibration. Records that are not `ok`, not
verified, or whose strategy had no confirmed effect support no advice.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Literal

from framebench.analysis.answers import select_one_row_per_case
from framebench.analysis.blocks import Blocks
from framebench.analysis.frames import Row
from framebench.analysis.lower_bound import compute_lower_bound
from framebench.analysis.needs import compute_needs
from framebench.analysis.peaks import (
    STUDIED_REACH,
    Peak,
    choose_peak,
    find_fault,
    select_evidence,
)
from framebench.analysis.results import NoRecords
from framebench.analysis.searches import NO_SEARCHES, CaseSearches, Searches
from framebench.analysis.statistics import Ratio
from framebench.models.spec import load_workload
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case
from framebench.suite.hypothetical import LARGEST_BATCH, DescribedCase
from framebench.suite.selectors import join_choice

SortOrder = Literal["speed", "memory", "batch"]
FEWEST_RANKED = 3  # timed strategies of a machine that are ranked by themselves


@dataclass(frozen=True)
class Question:
    """A question to `advise`: which strategies fit into the budget.

    Without a `batch` the answer has the largest batch of each that fits. `shape` is the
    configuration of a model that is only described.
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

    def includes(self, framework: str, strategy: str) -> bool:
        """Return whether the answer may contain this strategy."""
        is_chosen = self.strategies is None or strategy in self.strategies
        return is_chosen and framework in self.frameworks

    @property
    def selector(self) -> str:
        """Return the selector of the cases whose records answer it, with no others.

        A batch that is not declared cannot be measured, so that all batches are named then. The
        records of a model that is only described are those of any size.
        """
        frameworks = strategies = batch = "*"
        if self.frameworks != FRAMEWORKS:
            frameworks = join_choice(self.frameworks)
        if self.strategies is not None:
            strategies = join_choice(sorted(self.strategies))
        selector = f"{self.workload}/{frameworks}/{self.scenario}/{strategies}"
        if self.shape:
            return selector
        declared_batches = load_workload(self.workload).preset(self.size).batches
        if self.batch in declared_batches:
            batch = f"b{self.batch}"
        return f"{selector}/{batch}/{self.size}"

    def make_case(self, framework: str, strategy: str, batch: int) -> Case:
        """Return the case of a strategy at a batch."""
        fields = self.workload, framework, self.scenario, strategy, batch, self.size
        if self.shape:
            return DescribedCase(*fields, shape=self.shape)
        return Case(*fields)


@dataclass(frozen=True)
class Candidate:
    """One strategy at one batch."""

    case: Case
    peak: Peak
    fits: bool  # into the budget of the question
    may_fit: bool  # it does not by its needs, which are a guess, and no search has tried it
    judged_by: Literal["search", "record", "prediction"]  # what decided whether it fits
    evidence: Row  # the newest row that the peak rests on
    timed_rows: Sequence[Row]  # of this strategy at any batch, each with a throughput
    speed: Row | None  # the timed row that ranks it, of its batch or of a smaller one
    # the largest batch that has a record; 0 for a model that is only described. A search does not
    # count: peaks are predicted from records alone
    measured_up_to: int = 0
    # where the largest batch is in question and is far: the largest measured or tried that fits
    measured_fit: Candidate | None = None
    # where no batch fits: a smaller one that may, whose peak cannot be predicted; 0 for none
    unknown_batch: int = 0

    @property
    def is_far(self) -> bool:
        """Return whether the batch is predicted further beyond recorded ones than was studied."""
        if self.judged_by != "prediction" or not self.measured_up_to:
            return False
        return self.case.batch > STUDIED_REACH * self.measured_up_to

    @property
    def shown(self) -> Candidate:
        """Return the candidate that answers lead with: of a far batch, the measured one."""
        return self.measured_fit or self

    @property
    def name(self) -> str:
        """Return framework and strategy."""
        return f"{self.case.framework} {self.case.strategy}"

    @property
    def throughput(self) -> float:
        """Return samples or tokens per second for ranking.

        The throughput is 0 if no speed was measured, or by instruments without calibration.
        """
        if self.speed is None or not is_calibrated(self.speed):
            return 0
        return self.speed.throughput or 0

    @property
    def smallest_timed(self) -> Row | None:
        """Return the row of the smallest batch with a speed, or None if no batch has one."""
        return min(self.timed_rows, key=attrgetter("batch"), default=None)

    def find_faster_batch(self) -> Row | None:
        """Return the fastest row of a batch between that of `speed` and this one, if it is faster.

        It was measured by instruments without calibration, and so does not rank the candidate.
        """
        fastest = self.speed
        for row in self.timed_rows:
            is_between = self.speed and self.speed.batch < row.batch <= self.case.batch
            if fastest and is_between and (row.throughput or 0) > (fastest.throughput or 0):
                fastest = row
        return None if fastest is self.speed else fastest


@dataclass(frozen=True)
class BudgetAdvice:
    """The answer to a question.

    Candidates that fit are in the order that the question asks for, the others by their needs.
    """

    question: Question
    machine: str
    fitting: list[Candidate]
    different_result: list[Candidate]  # they fit, but compute something else
    unsearched: list[Candidate]  # they may fit (`Candidate.may_fit`), and compute the same
    too_large: list[Candidate]  # and compute the same
    left_out: dict[str, str]  # case -> why its record supports no advice
    # by the first machine's speeds, where those of another one, which timed more, are ranked
    fastest_on_first: Candidate | None = None

    @property
    def candidates(self) -> list[Candidate]:
        """Return all, those that fit first."""
        return [*self.fitting, *self.different_result, *self.unsearched, *self.too_large]


@dataclass(frozen=True)
class SuggestedChange:
    """The change from the user's strategy to one that fits, with the least loss of speed.

    It stays in the same framework if anything fits there.
    """

    base: Candidate
    to: Candidate | None
    # step time of the new over the old, where both were timed at one batch in the same blocks
    time: Ratio | None = None


def is_calibrated(row: Row) -> bool:
    """Return whether the machine's instruments measured known sizes and durations right."""
    return row.calibration == "passed"


def advise(
    rows_of_machines: Sequence[Sequence[Row]],
    question: Question,
    searches: Searches = NO_SEARCHES,
) -> BudgetAdvice:
    """Return the strategies that fit, by searches and by the rows of one or several machines.

    The rows of this machine come first. Strategies that only test an article's sentence are left
    out. Speeds are those of the first machine that timed enough strategies to rank them, or else of
    the one that timed most. Raises NoRecords.
    """
    relevant = [select_relevant(machine_rows, question) for machine_rows in rows_of_machines]
    rows = select_one_row_per_case(relevant)
    if not rows:
        raise NoRecords(f"no records of {question.selector}", question.selector)
    speeds = select_speeds(rows_of_machines, question)
    devices = {row.device for row in rows}  # of one kind, which was chosen with the rows
    all_rows = []
    for machine_rows in relevant:
        all_rows += [row for row in machine_rows if row.device in devices]
    candidates, refused = make_candidates(rows, all_rows, speeds, question, searches)
    fitting = []
    different_result = []
    # sorted together, so that both lists are in the order of the same measure
    for candidate in sort_candidates([c for c in candidates if c.fits], question.by):
        if candidate.case.same_mathematics:
            fitting.append(candidate)
        else:
            different_result.append(candidate)
    not_fitting = [c for c in candidates if not c.fits and c.case.same_mathematics]
    unsearched = [c for c in not_fitting if c.may_fit]
    too_large = [c for c in not_fitting if not c.may_fit]
    first_row, *_ = speeds or rows
    fastest_on_first = None
    if relevant[0] and relevant[0][0].machine != first_row.machine:
        on_first, _ = make_candidates(rows, all_rows, relevant[0], question, searches)
        fastest_on_first = find_fastest(on_first)
    return BudgetAdvice(
        question=question,
        machine=first_row.machine,
        fitting=fitting,
        different_result=different_result,
        unsearched=sorted(unsearched, key=lambda c: (c.peak.least_needs, c.case)),
        too_large=sort_candidates(too_large, "memory"),
        left_out=explain_left_out(rows, question.size) | refused,
        fastest_on_first=fastest_on_first,
    )


def find_fastest(candidates: Sequence[Candidate]) -> Candidate | None:
    """Return the fastest of those that fit, compute the same and have a calibrated speed."""
    ranked = []
    for candidate in candidates:
        is_ranked = candidate.speed is not None and is_calibrated(candidate.speed)
        if is_ranked and candidate.fits and candidate.case.same_mathematics:
            ranked.append(candidate)
    return max(ranked, key=attrgetter("throughput"), default=None)


def explain_left_out(rows: Sequence[Row], size: str) -> dict[str, str]:
    """Return why the records of some cases of this size support no advice, by case."""
    left_out = {}
    for row in rows:
        fault = find_fault(row)
        # an unsupported strategy is no news: nobody expects advice on it
        if fault and row.size == size and row.status != "unsupported":
            left_out[row.case] = fault
    return left_out


def select_relevant(rows: Sequence[Row], question: Question) -> list[Row]:
    """Return the rows of the strategies and the size in question.

    A model that is only described takes rows of every size.
    """
    relevant = []
    for row in rows:
        same_size = question.shape or row.size == question.size
        if same_size and question.includes(row.framework, row.strategy) and not row.only_for_claims:
            relevant.append(row)
    return relevant


def select_speeds(rows_of_machines: Sequence[Sequence[Row]], question: Question) -> Sequence[Row]:
    """Return the rows of the machine whose speeds are ranked.

    Speeds of two machines are never ranked together: on another processor the order may differ. It
    is the first machine that timed enough, in all frameworks of the question that any machine has
    timed; or else in some of them; or else the one that timed most. Whether it timed enough is
    counted over all strategies, so that a question about some takes the machine of a question about
    all.
    """
    about_all = replace(question, frameworks=FRAMEWORKS, strategies=None)
    all_machines = []
    ranking = []
    for machine_rows in rows_of_machines:
        relevant = select_relevant(machine_rows, question)
        all_machines.append(relevant)
        timed_in_all = list_timed_strategies(select_relevant(machine_rows, about_all))
        if len(timed_in_all) >= FEWEST_RANKED and list_timed_strategies(relevant):
            ranking.append(relevant)
    if not ranking:
        return max(all_machines, key=lambda rows: len(list_timed_strategies(rows)))
    # of equally many frameworks the first machine
    return max(ranking, key=count_timed_frameworks)


def count_timed_frameworks(rows: Sequence[Row]) -> int:
    """Return in how many frameworks a strategy has a speed."""
    return len({framework for framework, _ in list_timed_strategies(rows)})


def list_timed_strategies(rows: Sequence[Row]) -> set[tuple[str, str]]:
    """Return the framework and the name of each strategy that has a speed."""
    return {(row.framework, row.strategy) for row in rows if row.throughput and not find_fault(row)}


def make_candidates(
    rows: Sequence[Row],
    all_rows: Sequence[Row],
    speeds: Sequence[Row],
    question: Question,
    searches: Searches,
) -> tuple[list[Candidate], dict[str, str]]:
    """Return one candidate for each framework and strategy with usable rows.

    The candidate is at the batch in question, or at the largest that fits. The second result has
    cases whose peak cannot be predicted, with the reason.

    Args:
        rows: One row for each case, of the first machine that has it.
        all_rows: The rows of all machines. A peak is predicted from the rows of one of them.
        speeds: The rows of the machine whose speeds are ranked.
        question: What is asked.
        searches: Searches for the largest batch.
    """
    candidates = []
    refused = {}
    usable = {(row.framework, row.strategy) for row in rows if not find_fault(row)}
    for framework, strategy in sorted(usable):
        case = question.make_case(framework, strategy, question.batch or 1)
        # nothing is known of what another model would need at another size
        if question.shape and not case.same_mathematics:
            continue
        evidence = select_evidence(all_rows, case)
        timed_rows = []
        if not question.shape:  # a speed of another model says nothing
            timed_rows = select_timed(speeds, case, evidence[-1].device)
        strategy_evidence = StrategyEvidence(evidence, timed_rows, question.budget, searches)
        if question.batch is None:
            candidates.append(strategy_evidence.find_largest_batch(case))
        elif question.batch % case.strategy_spec.micro_batches == 0:
            try:
                candidates.append(strategy_evidence.judge(case))
            except NoRecords as error:
                refused[case.id] = str(error)
    return candidates, refused


def select_timed(rows: Sequence[Row], case: Case, device: str | None) -> list[Row]:
    """Return the rows that say how fast the strategy of a case is, at any batch.

    A speed on another kind of device says nothing.
    """
    timed = []
    for row in rows:
        is_strategy = (row.framework, row.strategy) == (case.framework, case.strategy)
        if is_strategy and row.device == device and row.throughput and not find_fault(row):
            timed.append(row)
    return timed


@dataclass(frozen=True)
class StrategyEvidence:
    """The measurements of one strategy in one framework, and the budget."""

    rows: Sequence[Row]  # usable ones of one machine and version, by batch
    timed_rows: Sequence[Row]  # of one machine, each with a throughput
    budget: int  # bytes
    searches: Searches

    def find_searches(self, case: Case) -> CaseSearches:
        """Return the searches under a limit in the version that the rows are of."""
        row = self.rows[-1]
        return self.searches.find_searches(case, row.machine, row.framework_version, row.device)

    def judge(self, case: Case) -> Candidate:
        """Return a case with its peak, whether it fits, and its speed (`find_speed`).

        A search that tells whether it fits counts more than records and predictions. Raises
        NoRecords if its peak cannot be predicted.
        """
        peak = choose_peak(self.rows, case, self.searches)
        judged_by: Literal["search", "record", "prediction"] = "prediction"
        if self.find_searches(case).check_fits(case.batch, self.budget) is not None:
            judged_by = "search"
        elif peak.kind == "measured":
            judged_by = "record"
        return Candidate(
            case,
            peak,
            fits=peak.needs <= self.budget,
            may_fit=peak.least_needs <= self.budget < peak.needs,
            judged_by=judged_by,
            evidence=max(self.rows, key=lambda row: (row.case == case.id, row.measured_at)),
            timed_rows=self.timed_rows,
            speed=self.find_speed(case),
            measured_up_to=max(self.list_recorded_batches(case), default=0),
        )

    def list_timed_up_to(self, batch: int) -> list[Row]:
        """Return the rows with the speed of this batch or of smaller ones.

        A speed of a larger batch says nothing of this one: with a single sample a kernel may take
        another path, which is several times slower.
        """
        return [row for row in self.timed_rows if row.batch <= batch]

    def find_speed(self, case: Case) -> Row | None:
        """Return the row with the speed of the case, or of the nearest smaller batch, if any."""
        return max(self.list_timed_up_to(case.batch), key=attrgetter("batch"), default=None)

    def find_largest_batch(self, case: Case) -> Candidate:
        """Return a case's strategy at the largest batch that fits, or at the smallest of all.

        Its speed is the best that was measured up to this batch, since a smaller batch may be used
        too. A larger budget therefore never makes a strategy slower.
        """

        def rank_speed(row: Row) -> tuple[bool, float]:
            return is_calibrated(row), row.throughput or 0

        smallest = self.find_smallest_batch(case)
        for batch in sorted(self.list_promising_batches(case, smallest), reverse=True):
            candidate = self.judge(replace(case, batch=batch))
            if candidate.fits:
                break
        unknown_batch = 0
        # nothing fits, but the peak of a batch with one sample in the model is not known
        if not candidate.fits and smallest > case.strategy_spec.micro_batches:
            unknown_batch = self.find_unknown_batch(candidate)
        timed_rows = self.list_timed_up_to(candidate.case.batch)
        fastest = max(timed_rows, key=rank_speed, default=None)
        measured_fit = None
        if candidate.is_far:
            for batch in sorted(self.list_measured_batches(case)):
                measured = self.judge(replace(case, batch=batch))
                if measured.fits:
                    measured_fit = measured
        return replace(
            candidate,
            may_fit=candidate.may_fit or unknown_batch > 0,
            speed=fastest,
            measured_fit=measured_fit,
            unknown_batch=unknown_batch,
        )

    def find_unknown_batch(self, candidate: Candidate) -> int:
        """Return the batch with one sample in the model if it may fit, or 0 if it does not.

        `candidate` has two samples in the model, and does not fit. One sample is taken to need more
        than half of what two need, since weights are in both. That was not measured: of two and
        four samples it held in all published cases.
        """
        case = candidate.case
        single_sample = replace(case, batch=case.strategy_spec.micro_batches)
        half_of_two = (candidate.peak.low or candidate.peak.value) / 2
        least_bytes = max(compute_lower_bound(single_sample).total, half_of_two)
        if compute_needs(least_bytes, kept_bytes=0) > self.budget:
            return 0
        return single_sample.batch

    def find_smallest_batch(self, case: Case) -> int:
        """Return the smallest batch whose peak is known: one sample, or two, in a micro-batch."""
        smallest = case.strategy_spec.micro_batches
        try:
            choose_peak(self.rows, replace(case, batch=smallest), self.searches)
        except NoRecords:
            return 2 * smallest
        return smallest

    def list_recorded_batches(self, case: Case) -> set[int]:
        """Return the batches of the case's size that have a record."""
        return {row.batch for row in self.rows if row.size == case.size}

    def list_measured_batches(self, case: Case) -> set[int]:
        """Return the batches of the case's size that were measured, or that a search saw fit."""
        batches = self.list_recorded_batches(case)
        largest_fitting = self.find_searches(case).find_largest_fitting(self.budget)
        if largest_fitting:
            batches.add(largest_fitting)
        return batches

    def list_promising_batches(self, case: Case, smallest: int) -> set[int]:
        """Return the batches from `smallest` on among which the largest that fits must be.

        The batches are the smallest, the largest that is predicted to fit, those measured, the
        largest that a search saw fit, and the one below the smallest that a search saw fail.
        """
        step = case.strategy_spec.micro_batches

        def predict_need(batch: int) -> int:
            return choose_peak(self.rows, replace(case, batch=batch), self.searches).needs

        promising = {smallest, *self.list_measured_batches(case)}
        # the need grows with the batch, so bisection finds how many batches are predicted to fit
        batches = range(smallest, LARGEST_BATCH + 1, step)
        fitting_count = bisect_right(batches, self.budget, key=predict_need)
        if fitting_count:
            promising.add(batches[fitting_count - 1])
        failing = self.find_searches(case).find_smallest_failing(self.budget)
        if failing is not None:
            promising.add(failing - step)
        return {batch for batch in promising if batch >= smallest}


def list_speeds(candidates: Sequence[Candidate]) -> list[Row]:
    """Return the rows of those speeds that rank candidates: measured and calibrated."""
    return [c.speed for c in candidates if c.speed and c.throughput]


def is_ranked_by_ratio(candidates: Sequence[Candidate]) -> bool:
    """Return whether their speeds are compared by the ratio to PyTorch's baseline."""
    speeds = list_speeds(candidates)
    batches_and_sizes = {(row.batch, row.size) for row in speeds}
    return len(batches_and_sizes) == 1 and all(row.torch_ratio for row in speeds)


def sort_candidates(candidates: Sequence[Candidate], by: SortOrder) -> list[Candidate]:
    """Return the candidates in this order: fastest, least memory or largest batch first.

    Equal ones are in the order of their needs, at the batch that answers lead with.

    Speeds are compared by the ratio to PyTorch's baseline if all were timed at one batch in blocks
    with it, since a machine drifts between blocks; otherwise by throughput. Without any speed the
    largest batch comes first.
    """
    speeds = list_speeds(candidates)
    by_ratio = is_ranked_by_ratio(candidates)

    def sort_key(candidate: Candidate) -> tuple[float, int, Case]:
        """Return the sort key of a candidate, the smallest first."""
        rank = 0.0
        if by == "batch" or (by == "speed" and not speeds):
            rank = -candidate.case.batch
        elif by == "speed" and not by_ratio:
            rank = -candidate.throughput
        elif by == "speed":
            rank = math.inf  # last, without a calibrated speed
            if candidate.speed and candidate.throughput:
                rank = candidate.speed.torch_ratio or 0.0
        return rank, candidate.shown.peak.needs, candidate.case

    return sorted(candidates, key=sort_key)


def find_change(
    advice: BudgetAdvice, framework: str, strategy: str, blocks: Blocks
) -> SuggestedChange | None:
    """Return the change that costs least speed, or None without records of the user's strategy."""
    for base in advice.candidates:
        if (base.case.framework, base.case.strategy) == (framework, strategy):
            break
    else:
        return None
    # to change the framework costs more than any strategy
    same_framework = [c for c in advice.fitting if c.case.framework == framework]
    fitting = same_framework or advice.fitting
    if not fitting:
        return SuggestedChange(base, None)
    to = fitting[0]
    for row in base.timed_rows:
        if to.speed and (row.batch, row.size) == (to.speed.batch, to.speed.size):
            return SuggestedChange(base, to, blocks.compare_cases(row.case, to.speed.case))
    return SuggestedChange(base, to)
