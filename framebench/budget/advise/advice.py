"""Which strategies fit into a budget of memory, fastest first: by a search under a limit, by records, or predicted.

Every offer says which. A speed is always a measured one, and offers are ranked by speeds of machines whose instruments came out
right alone. Records that are not `ok`, not verified, or whose strategy was not seen at work, are no advice.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from framebench.analysis.answers import select_rows
from framebench.analysis.blocks import Blocks
from framebench.analysis.frames import Row
from framebench.analysis.peaks import Peak, find_fault, peak_from, select_evidence
from framebench.analysis.results import NoRecords
from framebench.analysis.searches import Searches
from framebench.analysis.statistics import Ratio
from framebench.models import spec
from framebench.strategies.registry import in_use
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case, declared, first_batch
from framebench.suite.hypothetical import Described

MOST = 2**16  # samples in a batch
Evidence = dict[tuple[str, str], "Known"]  # by framework and strategy
NONE = Searches()


class Known(NamedTuple):
    """The usable rows of a strategy, in the order of their batches, and those that tell how fast it is: of one machine."""

    rows: list[Row]
    timed: tuple[Row, ...]


@dataclass(frozen=True)
class Question:
    """`batch` None asks for the largest that fits. `shape` is the configuration of a model that is only described."""

    workload: str
    scenario: str
    budget: int  # bytes
    frameworks: tuple[str, ...] = FRAMEWORKS
    batch: int | None = None
    size: str = "cpu"
    shape: Any = None
    by: Literal["speed", "memory", "batch"] = "speed"  # what offers are sorted by
    strategies: frozenset[str] | None = None  # these alone

    def asks(self, framework: str, strategy: str) -> bool:
        return framework in self.frameworks and (self.strategies is None or strategy in self.strategies)

    def case(self, framework: str, strategy: str, batch: int) -> Case:
        parts = self.workload, framework, self.scenario, strategy, batch, self.size
        return Case(*parts) if self.shape is None else Described(*parts, shape=self.shape)


@dataclass(frozen=True)
class Offer:
    """One strategy at one batch. `speed` is a measured row that stands for it, perhaps of another batch or size."""

    case: Case
    peak: Peak
    fits: bool  # into the budget of the question
    judge: Literal["search", "record", "prediction"]
    evidence: Row  # the newest row that the peak rests on
    timed: tuple[Row, ...]  # all that have a throughput
    speed: Row | None

    @property
    def throughput(self) -> float:
        """Samples or tokens per second, for ranking: 0 where none was measured, or with instruments nobody has checked."""
        return (self.speed.throughput or 0) if self.speed and calibrated(self.speed) else 0


def calibrated(r: Row) -> bool:
    """Whether the machine's instruments gave known sizes and lengths right."""
    return r.calibration == "passed"


@dataclass(frozen=True)
class Advice:
    """Every list is sorted: offers that fit as the question says, those that do not by what they need."""

    question: Question
    machine: str
    fitting: list[Offer]
    changed: list[Offer]  # they fit, but compute something else
    beyond: list[Offer]
    left_out: dict[str, str]  # case -> why its record is no advice
    unmeasured: list[str]  # cases that a CPU could run and that have no record


def offer(known: Known, case: Case, budget: int, searches: Searches) -> Offer:
    """Its speed is that of the nearest batch. A search that tells whether it fits beats records and predictions."""
    rows, timed = known
    exact = [r for r in rows if r.case == case.id]
    nearest = min(timed, key=lambda r: abs(math.log(r.batch / case.batch)), default=None)
    newest = max(rows, key=lambda r: r.measured_at)
    peak = peak_from(rows, case, searches)
    verdict = searches.tried(case, newest.machine, newest.framework_version, newest.device).verdict(case.batch, budget)
    judge: Literal["search", "record", "prediction"] = "record" if peak.kind == "measured" else "prediction"
    fits, judge = (peak.needs <= budget, judge) if verdict is None else (verdict, "search")
    return Offer(case, peak, fits, judge, exact[0] if exact else newest, timed, nearest)


def largest(known: Known, case: Case, budget: int, searches: Searches) -> Offer:
    """The strategy at the largest batch that fits; where none does, at the smallest there is.

    Its speed is the best of the batches up to there, since a smaller one may be used as well: a larger budget slows nothing.
    """
    rows, unit = known.rows, case.plan.micro_batches
    batches = range(unit, MOST + 1, unit)
    expected = bisect_right(batches, budget, key=lambda b: peak_from(rows, replace(case, batch=b), searches).needs) * unit
    tried = searches.tried(case, rows[-1].machine, rows[-1].framework_version, rows[-1].device)
    known_batches = {
        tried.fitting(budget),
        (tried.failing(budget) or unit) - unit,
        *(r.batch for r in rows if r.size == case.size),
    }
    candidates = (
        offer(known, replace(case, batch=b), budget, searches) for b in sorted({expected, unit, *known_batches} - {0})[::-1]
    )
    chosen_offer = next((o for o in candidates if o.fits), offer(known, replace(case, batch=unit), budget, searches))
    within = [r for r in chosen_offer.timed if r.batch <= chosen_offer.case.batch] or chosen_offer.timed[:1]
    return replace(chosen_offer, speed=max(within, key=lambda r: (calibrated(r), r.throughput or 0), default=None))


def answers(evidence: Evidence, question: Question, searches: Searches) -> list[Offer]:
    """One for each framework and strategy with evidence."""
    offers = []
    for (framework, strategy), known in evidence.items():
        case = question.case(framework, strategy, question.batch or 1)
        if question.batch is None:
            offers.append(largest(known, case, question.budget, searches))
        elif question.batch % case.plan.micro_batches == 0:
            offers.append(offer(known, case, question.budget, searches))
    return offers


def _by_speed(offers: Iterable[Offer]) -> list[Offer]:
    """Fastest first, ties by the smaller peak; those without a speed that counts (`Offer.throughput`) last.

    By the ratio to PyTorch's baseline where all were timed at one batch in blocks with it, since a machine drifts between
    blocks; or else by throughput. Without any speed the largest batch comes first.
    """
    all_offers = list(offers)
    timed = [o.speed for o in all_offers if o.speed and o.throughput]
    shared = len({(r.batch, r.size) for r in timed}) == 1 and all(r.torch_ratio for r in timed)

    def slowness(o: Offer) -> float:
        return -o.throughput if not shared else o.speed.torch_ratio or 0.0 if o.speed and o.throughput else math.inf

    return sorted(all_offers, key=lambda o: (slowness(o), 0 if timed else -o.case.batch, o.peak.value, o.case))


def _by_memory(offers: Iterable[Offer]) -> list[Offer]:
    """The smallest peak first."""
    return sorted(offers, key=lambda o: (o.peak.value, o.peak.needs, o.case))


def _closest(offers: Iterable[Offer]) -> list[Offer]:
    """To a budget that holds none of them."""
    return sorted(offers, key=lambda o: (o.peak.needs, o.case))


def _by_batch(offers: Iterable[Offer]) -> list[Offer]:
    return sorted(offers, key=lambda o: (-o.case.batch, o.peak.needs, o.case))


def _evidence_of(asked: Sequence[Row], speeds: Sequence[Row], question: Question) -> Evidence:
    """The rows that bear on the question; of a model that is only described, those that compute the same. Speeds of a device of
    another kind, or of another model, are none of the question's."""
    known: Evidence = {}
    for framework, strategy in sorted({(r.framework, r.strategy) for r in asked if not find_fault(r)}):
        case = question.case(framework, strategy, question.batch or 1)
        if question.shape is None or case.same_mathematics:
            rows = select_evidence(asked, case)
            same = [r for r in speeds if (r.framework, r.strategy, r.device) == (framework, strategy, rows[-1].device)]
            timed = () if question.shape is not None else tuple(r for r in same if r.throughput and not find_fault(r))
            known[framework, strategy] = Known(rows, timed)
    return known


def advise(of_machines: Sequence[Sequence[Row]], question: Question, searches: Searches = NONE) -> Advice:
    """From the rows of this machine and then of others, without strategies that only test an article's sentence, and from all
    searches that were made. Speeds are those of the machine that has timed most strategies. Raises NoRecords."""
    used = [[r for r in rows if question.asks(r.framework, r.strategy) and not r.only_for_claims] for rows in of_machines]
    relevant = [[r for r in rows if question.shape is not None or r.size == question.size] for rows in used]
    asked = select_rows(relevant)
    if not asked:
        what = f"{question.workload}/*/{question.scenario}" + ("" if question.shape is not None else f"/*/*/{question.size}")
        raise NoRecords(f"no records of {what}; measure first: framebench run '{what}'")
    speeds = max(relevant, key=lambda rows: len({(r.framework, r.strategy) for r in rows if r.throughput}))
    offers = answers(_evidence_of(asked, speeds, question), question, searches)
    order = {"speed": _by_speed, "memory": _by_memory, "batch": _by_batch}[question.by]
    fitting, beyond = order(o for o in offers if o.fits), _closest(o for o in offers if not o.fits)
    return Advice(
        question, (speeds or asked)[0].machine,
        fitting=[o for o in fitting if o.case.same_mathematics],
        changed=[o for o in fitting if not o.case.same_mathematics],
        beyond=[o for o in beyond if o.case.same_mathematics],
        left_out=list_left_out(asked, question),
        unmeasured=unmeasured({(r.framework, r.strategy) for r in asked}, question),
    )  # fmt: skip


def list_left_out(asked: Sequence[Row], question: Question) -> dict[str, str]:
    """Return the cases of the size that is asked for that support no advice, with the reason."""
    left_out = {}
    for row in asked:
        fault = find_fault(row)
        if fault and row.size == question.size and row.status != "unsupported":
            left_out[row.case] = fault
    return left_out


def unmeasured(measured_pairs: set[tuple[str, str]], question: Question) -> list[str]:
    """Cases of the question that a CPU could run and that have no record, at the first batch that they divide."""
    if question.shape is not None:
        return []
    base = spec.workload(question.workload).preset(question.size).base
    every = ((f, s) for f in question.frameworks for s in in_use(question.scenario))
    pairs = (pair for pair in every if pair not in measured_pairs and question.asks(*pair))
    cases = (question.case(*pair, first_batch(question.case(*pair, base))) for pair in pairs)
    return [c.id for c in cases if declared(c) and c.support.supported and not c.support.gpu]


class Change(NamedTuple):
    """From what the user has to what fits with the least loss of speed in the same framework, or else in another."""

    base: Offer
    to: Offer | None
    time: Ratio | None = None  # step time of the new over the old, at the batch nearest to the new that blocks have both at

    @property
    def speed(self) -> float | None:
        """Throughput of the new over the old."""
        return 1 / self.time.value if self.time else None


def change(advice: Advice, framework: str, strategy: str, blocks: Blocks) -> Change | None:
    """None without records of what the user has."""
    everything = [*advice.fitting, *advice.changed, *advice.beyond]
    base = next((o for o in everything if (o.case.framework, o.case.strategy) == (framework, strategy)), None)
    same_framework = [o for o in advice.fitting if o.case.framework == framework]
    to = next(iter(same_framework or advice.fitting), None)
    return None if base is None else Change(base, to, _step_time(base, to, blocks) if to else None)


def _step_time(base: Offer, to: Offer, blocks: Blocks) -> Ratio | None:
    old, new = ({(r.batch, r.size): r.case for r in o.timed} for o in (base, to))
    nearest = sorted(old.keys() & new.keys(), key=lambda at: abs(at[0] - to.case.batch))
    ratios = (blocks.of_cases(old[at], new[at]) for at in nearest)
    return next((ratio for ratio in ratios if ratio), None)


def largest_that_fits(of_machines: Sequence[Sequence[Row]], question: Question, searches: Searches = NONE) -> Offer | None:
    """The largest batch that any strategy of the same mathematics fits the budget with. Raises NoRecords."""
    offers = advise(of_machines, replace(question, batch=None), searches).fitting
    return max(offers, key=lambda o: (o.case.batch, o.throughput), default=None)
