"""Which strategies fit into a budget of memory, fastest first: from records where a case was measured, else predicted.

Every offer says which. A measured peak and a predicted one are never averaged, and a speed is always a measured one. Whether a
case fits is decided by its framework's own instrument; where the kernel's view, `host.rss`, is known too, it is told, as that
is what a limit enforces. Records that are not `ok`, not verified, or whose strategy was not seen at work, are no advice.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from analysis.blocks import Blocks
from analysis.frames import Row, rows
from analysis.lower_bound import WIDE, layers, lower_bound, width
from analysis.predict import fit
from analysis.selection import select
from analysis.statistics import Ratio
from framebench.records import store
from framebench.records.record import case_of
from framebench.suite.case import Case, declared
from framebench.suite.hypothetical import Described
from framebench.suite.registry import in_use
from framebench.suite.strategy import FRAMEWORKS
from models import spec

MARGIN = 1.05  # a prediction without an interval that covers new measurements counts as so much more
MOST = 2**16  # samples in a batch
Evidence = dict[tuple[str, str], list[Row]]  # usable rows by framework and strategy, in the order of their batches


class NoRecords(ValueError):
    """Nothing was measured that could answer; the message says what would."""


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

    def case(self, framework: str, strategy: str, batch: int) -> Case:
        parts = self.workload, framework, self.scenario, strategy, batch, self.size
        return Case(*parts) if self.shape is None else Described(*parts, shape=self.shape)


class Peak(NamedTuple):
    """Bytes. `low` and `high` are the interval of a prediction; `method` says what it rests on."""

    kind: Literal["measured", "predicted"]
    method: str
    value: float
    low: float | None = None
    high: float | None = None
    margin: float = 1.0

    @property
    def needs(self) -> int:
        """What a budget must have for this peak to fit with confidence."""
        return math.ceil(max(self.value, self.high or 0) * self.margin)


@dataclass(frozen=True)
class Offer:
    """One strategy at one batch. `speed` is a measured row that stands for it, perhaps of another batch or size."""

    case: Case
    peak: Peak
    evidence: Row  # the newest row that the peak rests on
    timed: tuple[Row, ...]  # all that have a throughput
    speed: Row | None

    @property
    def host_rss(self) -> int | None:
        return self.evidence.host_rss_bytes if self.peak.kind == "measured" else None

    @property
    def throughput(self) -> float:
        """Samples or tokens per second, 0 where none was measured: for ranking."""
        return (self.speed.throughput or 0) if self.speed else 0

    def fits(self, budget: int) -> bool:
        return self.peak.needs <= budget

    def tight(self, budget: int) -> bool:
        """It fits, but so closely that what a process keeps beside tensors, some MiB of workspaces and kernels, may not."""
        return self.fits(budget) and self.peak.needs * MARGIN > budget

    def hidden(self, budget: int) -> bool:
        """It fits by the framework's own instrument, but not by what the kernel enforces."""
        return self.fits(budget) and (self.host_rss or 0) > budget


@dataclass(frozen=True)
class Advice:
    """Every list is sorted: offers that fit by speed, those that do not by what they need."""

    question: Question
    machine: str
    fitting: list[Offer]
    changed: list[Offer]  # they fit, but compute something else
    beyond: list[Offer]
    left_out: dict[str, str]  # case -> why its record is no advice
    unmeasured: list[str]  # cases that a CPU could run and that have no record


def useless(r: Row) -> str | None:
    """Why a row cannot support advice; None if it can."""
    if r.usable:
        return None if r.peak_bytes else "it has no peak"
    if r.status != "ok":
        return f"{r.status}: {r.reason or 'no reason given'}"
    return "the strategy was not seen at work" if r.verified else "its result was not verified"


def evidence_about(results: Path, machine: str, workload: str, scenario: str) -> tuple[list[Row], Blocks]:
    """The rows of a machine's records of a workload in a scenario, of one version and one protocol, and the blocks that they
    were timed in. Reads no other record."""
    found = select(store.of_cases(results, machine, f"{workload}.*.{scenario}.*"))
    return rows(r for r in found if r.parsed.ranks == 1), Blocks(found)


def peak_at(rows: Sequence[Row], case: Case) -> Peak:
    """Of a case whose strategy was measured as in `rows`: the measured peak if there is one, or a prediction."""
    exact = next((r for r in rows if r.case == case.id and not isinstance(case, Described)), None)
    if exact is not None and exact.peak_bytes:
        return Peak("measured", "record", exact.peak_bytes)
    if isinstance(case, Described):
        return by_ratio(rows, case)
    batches = [r.batch for r in rows]
    if len(set(batches)) < 2:
        return by_parts(rows[-1], case)
    value, low, high = fit(batches, [r.peak_bytes or 0 for r in rows]).at(case.batch)
    known, least = f"line through batches {', '.join(map(str, batches))}", lower_bound(case).total
    if low is None or high is None:
        return Peak("predicted", known, max(value, least), margin=MARGIN)
    return Peak("predicted", known, max(value, least), max(low, least), max(high, least))


def by_parts(r: Row, case: Case) -> Peak:
    """From one batch. What does not depend on the batch is at least parameters, buffers and optimizer states, so that one end
    is a line through these and the measured peak; the other adds to the lower bound what the measured peak exceeded it by."""
    known, least = lower_bound(replace(case, batch=r.batch)), lower_bound(case)
    peak, fixed = float(r.peak_bytes or 0), known.parameters + known.buffers + known.optimizer
    line = fixed + (peak - fixed) * case.batch / r.batch
    low, high = sorted((max(line, least.total), max(least.total + peak - known.total, least.total)))
    return Peak(
        "predicted", f"line through batch {r.batch} and what no batch changes", max(line, least.total), low, high, MARGIN
    )


def by_ratio(rows: Sequence[Row], case: Case) -> Peak:
    """Of a model that was only described: its lower bound, times what peaks of the same strategy were to theirs.

    The lower bound counts the logits once, in the precision of the activations. A loss that is not fused with its gradient
    holds three copies in float32, and the vocabulary may be far larger than in what was measured: the upper end has them.
    """
    ratios = [(r.peak_bytes or 0) / lower_bound(case_of(r.case)).total for r in rows]
    least = lower_bound(case).total
    logits = layers(case)[-1].elements * (case.batch // case.plan.micro_batches)
    low, high = min(ratios) * least, max(ratios) * least + (3 * WIDE - width(case)) * logits
    known = f"lower bound x {min(ratios):.2f} to {max(ratios):.2f}, with one to three copies of the logits"
    return Peak("predicted", known, (low + high) / 2, low, high)


def offer(rows: Sequence[Row], case: Case) -> Offer:
    """Its speed is that of the nearest batch."""
    exact = [r for r in rows if r.case == case.id]
    timed = tuple(r for r in rows if r.throughput)
    nearest = min(timed, key=lambda r: abs(math.log(r.batch / case.batch)), default=None)
    newest = max(rows, key=lambda r: r.measured_at)
    return Offer(case, peak_at(rows, case), exact[0] if exact else newest, timed, nearest)


def largest(rows: Sequence[Row], case: Case, budget: int) -> Offer:
    """The strategy at the largest batch that fits; where none does, at the smallest there is.

    Its speed is the best of the batches up to there, since a smaller one may be used as well: a larger budget slows nothing.
    """
    unit = case.plan.micro_batches
    batches = range(unit, MOST + 1, unit)
    expected = bisect_right(batches, budget, key=lambda batch: peak_at(rows, replace(case, batch=batch)).needs) * unit
    measured = [r.batch for r in rows if r.size == case.size]
    candidates = (offer(rows, replace(case, batch=batch)) for batch in sorted({expected, *measured, unit} - {0}, reverse=True))
    found = next((o for o in candidates if o.fits(budget)), offer(rows, replace(case, batch=unit)))
    within = [r for r in found.timed if r.batch <= found.case.batch] or found.timed[:1]
    return replace(found, speed=max(within, key=lambda r: r.throughput or 0, default=None))


def answers(evidence: Evidence, question: Question) -> list[Offer]:
    """One for each framework and strategy with evidence."""
    found = []
    for (framework, strategy), own in evidence.items():
        case = question.case(framework, strategy, question.batch or 1)
        if question.batch is None:
            found.append(largest(own, case, question.budget))
        elif question.batch % case.plan.micro_batches == 0:
            found.append(offer(own, case))
    return found


def by_speed(offers: Iterable[Offer]) -> list[Offer]:
    """Fastest first, ties by the smaller peak; those without a measured speed last.

    By the ratio to PyTorch's baseline where all were timed at one batch in blocks with it, since a machine drifts between
    blocks; or else by throughput.
    """
    found = list(offers)
    timed = [o.speed for o in found if o.speed]
    shared = len({(r.batch, r.size) for r in timed}) == 1 and all(r.torch_ratio for r in timed)

    def slowness(o: Offer) -> float:
        return -o.throughput if not shared else math.inf if o.speed is None else o.speed.torch_ratio or 0.0

    return sorted(found, key=lambda o: (slowness(o), o.peak.needs, o.case))


def evidence_of(rows: Iterable[Row], question: Question) -> Evidence:
    """The rows that bear on the question: those of its size, or of every size where the model is only described."""
    found: Evidence = {}
    for r in sorted(rows, key=lambda r: r.batch):
        described = question.shape is not None and case_of(r.case).plan.same_loss
        if not useless(r) and (described or (question.shape is None and r.size == question.size)):
            found.setdefault((r.framework, r.strategy), []).append(r)
    return {key: [r for r in own if r.peak_instrument == own[-1].peak_instrument] for key, own in found.items()}


def advise(rows: Sequence[Row], question: Question) -> Advice:
    """From the rows of one machine, without strategies that only test an article's sentence. Raises NoRecords."""
    used = [r for r in rows if r.framework in question.frameworks and not r.only_for_claims]
    asked = [r for r in used if question.shape is not None or r.size == question.size]
    if not asked:
        what = f"{question.workload}/*/{question.scenario}" + ("" if question.shape is not None else f"/*/*/{question.size}")
        raise NoRecords(f"no records of {what}; measure first: framebench run '{what}'")
    evidence = evidence_of(asked, question)
    offers = answers(evidence, question)
    fitting = by_speed(o for o in offers if o.fits(question.budget))
    beyond = sorted((o for o in offers if not o.fits(question.budget)), key=lambda o: (o.peak.needs, o.case))
    return Advice(
        question, asked[0].machine,
        fitting=[o for o in fitting if o.case.plan.same_loss],
        changed=[o for o in fitting if not o.case.plan.same_loss],
        beyond=[o for o in beyond if o.case.plan.same_loss],
        left_out={r.case: why for r in asked if r.size == question.size and r.status != "unsupported" and (why := useless(r))},
        unmeasured=unmeasured({(r.framework, r.strategy) for r in asked}, question),
    )  # fmt: skip


def unmeasured(known: set[tuple[str, str]], question: Question) -> list[str]:
    """Cases of the question that a CPU could run and that have no record, at the batch that comparisons are made at."""
    if question.shape is not None:
        return []
    workload = spec.workload(question.workload)
    pairs = ((f, s) for f in question.frameworks for s in in_use(question.scenario) if (f, s) not in known)
    cases = (question.case(*pair, workload.preset(question.size).base) for pair in pairs)
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


def change(advice: Advice, framework: str, strategy: str, known: Blocks) -> Change | None:
    """None without records of what the user has."""
    everything = [*advice.fitting, *advice.changed, *advice.beyond]
    base = next((o for o in everything if (o.case.framework, o.case.strategy) == (framework, strategy)), None)
    own = [o for o in advice.fitting if o.case.framework == framework]
    to = next(iter(own or advice.fitting), None)
    return None if base is None else Change(base, to, step_time(base, to, known) if to else None)


def step_time(base: Offer, to: Offer, known: Blocks) -> Ratio | None:
    old, new = ({(r.batch, r.size): r.case for r in o.timed} for o in (base, to))
    nearest = sorted(old.keys() & new.keys(), key=lambda at: abs(at[0] - to.case.batch))
    ratios = (known.of_cases(old[at], new[at]) for at in nearest)
    return next((ratio for ratio in ratios if ratio), None)


def largest_that_fits(rows: Sequence[Row], question: Question) -> Offer | None:
    """The largest batch that any strategy of the same mathematics fits the budget with. Raises NoRecords."""
    found = advise(rows, replace(question, batch=None)).fitting
    return max(found, key=lambda o: (o.case.batch, o.throughput), default=None)
