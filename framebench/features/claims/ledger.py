"""The ledger: each claim with what was measured, the verdict, and the records behind it."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from framebench.analysis.results import Results
from framebench.features.claims.claim import Arm, Claim
from framebench.features.claims.full_size import predicted, said
from framebench.features.claims.measures import Nothing, OfCases, Predicted, Unpaired
from framebench.features.claims.registry import REGISTRY
from framebench.features.claims.rule import Verdict, decide, summary
from framebench.features.claims.samples import SHARE, TIME
from framebench.features.claims.store import Measured
from framebench.suite.case import DEFAULT_SIZE, Case

GPU: Verdict = "needs a GPU"
NOT_MEASURED: Verdict = "not measured"
DEFINITION: Verdict = "by definition"
NAMES = "names"  # the probe that looks names up
SENTENCE = re.compile(r"(?<=\.) ")
NULL = {"change": 1.0}  # the effect's value if there is none, by form; 0 for the others


@dataclass(frozen=True)
class Line:
    """One arm of a claim. Numbers are in the unit of its measure; None without a measurement, `low` and `high` without an
    interval."""

    id: str  # B2 memory/transformer/torch b4/cpu
    name: str
    decides: bool  # or is shown beside the deciding ones
    verdict: Verdict
    form: str
    metric: str  # arms of one metric may be summed up
    value: float | None = None
    low: float | None = None
    high: float | None = None
    claimed: float | None = None
    cases: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # cases without records
    tried: bool = False  # and one of them was measured, and has no numbers: again it would have none
    remark: str = ""  # why there is no number
    records: tuple[str, ...] = ()

    @property
    def measured(self) -> str:
        return shown(self.value, self.low, self.high, self.form)


@dataclass(frozen=True)
class Entry:
    """One claim, or one part of it. `value`, `low` and `high` are those of the deciding arms with the claim's first metric that
    was measured: the median, and from the lowest end of their intervals to the highest."""

    id: str
    part: str  # such as memory and speed, where the claim is about several
    source: str
    says: str
    verdict: Verdict
    claimed: str
    metric: str
    value: float | None
    low: float | None
    high: float | None
    form: str
    recommendation: str
    transfers_to_gpu: bool  # whether a CPU's result holds on a GPU too
    why: str  # or why not
    remark: str  # what is missing, why the arms are what they are, and facts from documents
    command: str  # what would measure what is missing; empty if nothing is
    records: tuple[str, ...]
    lines: tuple[Line, ...]
    machine: str
    size: str
    protocol: int  # that all of its arms were measured under
    full_size: tuple[float, float] | None  # what the lower bound predicts there, as a ratio: least and most of the arms

    @property
    def name(self) -> str:
        """`A1`, or `B2 memory`."""
        return f"{self.id} {self.part}".strip()

    @property
    def measured(self) -> str:
        return shown(self.value, self.low, self.high, self.form)

    @property
    def measured_and_predicted(self) -> str:
        return self.measured + said(self.full_size)


def shown(value: float | None, low: float | None, high: float | None, form: str) -> str:
    """`-38.2 % (-38.9 to -37.5)`, in the form of the measure; `-` without a value, and no number without an interval."""
    if value is None:
        return "-"
    if low is None or high is None:
        return "no interval"
    if form in ("change", "share", "points", "error"):
        less = 1.0 if form == "change" else 0.0
        v, lo, hi = (100 * (x - less) for x in (value, low, high))
        sign, unit = ("+" if form == "change" else "", " points" if form == "points" else " %")
        digits = 3 if form == "error" and abs(hi) < 0.1 else 1
        return f"{v:{sign}.{digits}f}{unit} ({lo:{sign}.{digits}f} to {hi:{sign}.{digits}f})"
    digits = 0 if form == "count" else 2
    return f"{value:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def ledger(results: Results, machine: str, size: str = DEFAULT_SIZE, ids: Iterable[str] = ()) -> list[Entry]:
    """Every claim (or those named) as measured on a machine. Raises UnknownClaim."""
    measured = Measured(results, machine)
    return [entry(claim, measured, size) for claim in REGISTRY.chosen(ids)]


def measured_there(claim_entry: Entry) -> bool:
    """Whether its machine has records behind it: a claim about GPUs, or by definition, has a verdict without any."""
    return bool(claim_entry.records) and claim_entry.verdict != NOT_MEASURED


def entry(claim: Claim, measured: Measured, size: str) -> Entry:
    lines = [line(claim, arm, measured, size) for arm in claim.every_arm if applies(arm, size)]
    deciding = [one for one in lines if one.decides]
    leading = next((one.metric for one in deciding if one.value is not None or one.verdict != GPU), "")
    first = [one for one in deciding if one.metric == leading and one.value is not None]
    with_interval = [one for one in first if one.low is not None] or first
    # a claim whose first metric is missing is not judged by its others
    counted = deciding if first or not leading else [one for one in deciding if one.metric == leading]
    verdict = _of_words(claim, measured) or summary([one.verdict for one in counted])
    files = [f for one in lines for f in one.records] + (measured.files([], NAMES) if claim.absent else [])
    return Entry(
        claim.id, claim.part, claim.source, claim.says, verdict, claim.claimed, claim.metric, *_hull(with_interval),
        first[0].form if first else "", _advice(claim, verdict, first), claim.transfers_to_gpu, claim.why, remark(claim, lines),
        command(claim, lines, verdict, size),
        tuple(dict.fromkeys(files)), tuple(lines), measured.machine, size, measured.protocol,
        predicted(claim, size),
    )  # fmt: skip


def applies(arm: Arm, size: str) -> bool:
    """Small sizes lack some batches."""
    return isinstance(arm.measure, Predicted) or bool(arm.measure.probe or arm.measure.cases(size))


def line(claim: Claim, arm: Arm, measured: Measured, size: str) -> Line:
    """The arm's effect and verdict; without records, what is missing. Of a claim by definition, and of one about GPUs on a
    machine without one, the numbers of the deciding arms are shown and decide nothing."""
    judged_line = judged(claim, arm, measured, size)
    if judged_line.decides and claim.about_gpus and measured.on_cpu:
        return replace(judged_line, verdict=GPU)
    return (
        replace(judged_line, verdict=DEFINITION)
        if judged_line.decides and claim.definition and judged_line.value is not None
        else judged_line
    )


def judged(claim: Claim, arm: Arm, measured: Measured, size: str) -> Line:
    """An arm by its numbers alone."""
    cases, probe = arm.measure.cases(size), arm.measure.probe
    missing = [case for case in cases if not measured.records(case)]
    failures = {case.id: measured.failure(case) for case in missing}
    name = f"{arm.name} {arm.measure.where(size)}".strip()
    files = measured.files([] if missing else cases, probe, _of_times(arm))
    blank = Line(
        f"{claim.name}/{name}", name, arm in claim.arms, NOT_MEASURED, arm.measure.form, arm.measure.about,
        claimed=arm.target.value, cases=tuple(case.id for case in cases), missing=tuple(failures), records=tuple(files),
        tried=any(failures.values()), remark="; ".join(f"{name}: {why}" for name, why in failures.items() if why),
    )  # fmt: skip
    if missing:
        return replace(blank, verdict=GPU) if measured.on_cpu and any(case.support.gpu for case in missing) else blank
    if idle := [case.id for case in cases if not measured.proven(case)]:
        return replace(blank, remark=f"the strategy was not seen at work in {', '.join(idle)}")
    try:
        effect = arm.measure.effect(measured, size)
    except Nothing as why:
        return replace(blank, remark=str(why))
    low, high = (end if math.isfinite(end) else None for end in (effect.low, effect.high))
    return replace(blank, verdict=decide(effect, arm.target), value=effect.value, low=low, high=high)


def _of_words(claim: Claim, measured: Measured) -> Verdict | None:
    """The verdict that no measurement changes: `by definition`; `no such API` if a look-up found none of the names that the
    claim is about, and `not measured` without the look-up. None for any other claim."""
    if claim.definition:
        return DEFINITION
    if not claim.absent:
        return None
    looked_up = measured.probe(NAMES)
    if looked_up is None or any(name not in looked_up.names for name in claim.absent):
        return "not measured"
    return None if any(looked_up.names[name] for name in claim.absent) else "no such API"


def _hull(lines: list[Line]) -> tuple[float | None, float | None, float | None]:
    """Median, lowest and highest end; no ends where an arm has none."""
    if not lines:
        return None, None, None
    middle = statistics.median(one.value for one in lines if one.value is not None)
    lows, highs = ([end for end in ends if end is not None] for ends in zip(*((one.low, one.high) for one in lines)))
    if len(lows) < len(lines) or len(highs) < len(lines):
        return middle, None, None
    return middle, min(lows), max(highs)


def _advice(claim: Claim, verdict: Verdict, first: list[Line]) -> str:
    """What to do, its figures filled in; without a measurement, of the sentences those that need none."""
    text = claim.if_so if claim.if_so and verdict in ("reproduced", "stronger") else claim.recommendation
    first = [one for one in first if one.low is not None]
    if not first or verdict == "undecided":
        return " ".join(part for part in SENTENCE.split(text) if "{" not in part) or "Measure it first."
    ranked = sorted(first, key=lambda one: abs((one.value or 0) - NULL.get(one.form, 0)))
    least, most = ranked[0], ranked[-1]
    either = len({(one.value or 0) > NULL.get(one.form, 0) for one in first}) > 1
    by_value = sorted(first, key=lambda one: one.value or 0)
    ends = dict.fromkeys(figure(one) for one in ((by_value[0], by_value[-1]) if either else (least, most)))
    return text.format(
        measured=shown(*_hull(first), first[0].form), range=" to ".join(ends),
        least=figure(least), most=figure(most), least_arm=least.name, most_arm=most.name,
    )  # fmt: skip


def figure(one: Line) -> str:
    """Without the interval: it stands beside."""
    return one.measured.split(" (")[0]


def remark(claim: Claim, lines: list[Line]) -> str:
    """What the numbers cannot say: about definitions, arms without a number, and from documents."""
    absent = [one for one in lines if one.decides and one.value is None]
    missing = f"{len(absent)} of {sum(one.decides for one in lines)} arms have no measurement." if absent else ""
    why = "; ".join(dict.fromkeys(one.remark for one in lines if one.decides and one.remark))
    parts = (claim.definition, claim.about_gpus, claim.reason, missing, why, claim.note)
    return " ".join(part if part.endswith(".") else f"{part}." for part in parts if part)


def command(claim: Claim, lines: list[Line], verdict: Verdict, size: str) -> str:
    """How to measure what is missing here; empty where nothing is, was tried in vain, or no records can be had."""
    lacking = [one for one in lines if one.decides and one.value is None]
    missing = any(not one.tried for one in lacking) or (verdict == NOT_MEASURED and not lacking)
    where = "" if size == DEFAULT_SIZE else f" --size {size}"
    return f"framebench claims {claim.id} --run{where}" if missing and not claim.reason else ""


@dataclass(frozen=True)
class Wanted:
    """What is to be measured: cases whose memory or counts are enough, cases whose times are compared with their baseline's,
    pairs that are compared with each other, and probes."""

    once: list[Case]
    timed: list[Case]
    pairs: list[tuple[Case, Case]]
    probes: list[str]

    @property
    def cases(self) -> list[Case]:
        return list(dict.fromkeys([*self.timed, *(case for pair in self.pairs for case in pair), *self.once]))


def wanted(claims: Iterable[Claim], measured: Measured, size: str, evidence: bool = True) -> Wanted:
    """What these claims need and this machine lacks; for the deciding arms first, but a workload's cases together."""
    arms = [arm for claim in claims for arm in claim.arms] + [arm for claim in claims for arm in claim.evidence if evidence]
    arms = [arm for arm in arms if applies(arm, size)]
    lacking = [(arm, _lacked(arm, measured, size)) for arm in arms]
    timed, pairs = dict[Case, None](), dict[tuple[Case, Case], None]()
    for arm, cases in lacking:
        if _in_blocks(arm) and cases and not _shares_baseline(*cases):
            pairs[cases[0], cases[1]] = None
        elif _in_blocks(arm):
            timed |= dict.fromkeys(cases)
    every = dict.fromkeys(case for _, cases in lacking for case in cases)
    once = [case for case in every if case not in timed and not any(case in pair for pair in pairs)]
    needed = dict.fromkeys([arm.measure.probe for arm in arms if arm.measure.probe] + [NAMES for c in claims if c.absent])
    missing = [probe for probe in needed if measured.probe(probe) is None]
    return Wanted(together(once), together(timed), list(pairs), missing)


def together(cases: Iterable[Case]) -> list[Case]:
    groups: dict[tuple[object, ...], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.workload, case.framework, case.scenario), []).append(case)
    return [case for group in groups.values() for case in group]


def _of_times(arm: Arm) -> bool:
    """Whether it is a ratio of step times."""
    return isinstance(arm.measure, OfCases) and arm.measure.quantity is TIME


def _in_blocks(arm: Arm) -> bool:
    """Whether it takes several blocks: ratios of times, and shares, which one process has no interval for."""
    return _of_times(arm) or (isinstance(arm.measure, OfCases) and arm.measure.quantity.name.startswith(SHARE))


def _shares_baseline(*cases: Case) -> bool:
    """Whether a block of one of them has the other anyway: as the scenario's baseline, its own framework's or PyTorch's."""
    return len(cases) < 2 or any(case.strategy == case.stage.baseline for case in cases)


def _lacked(arm: Arm, measured: Measured, size: str) -> list[Case]:
    """The arm's cases that have no records; of times, which are taken in one block, all if any has none."""
    cases = arm.measure.cases(size)
    if missing := [case for case in cases if not measured.records(case)]:
        return cases if _in_blocks(arm) else missing
    try:
        arm.measure.effect(measured, size)
    except Unpaired:
        return cases
    except Nothing:
        pass
    return []


def names(claims: Iterable[Claim]) -> tuple[str, ...]:
    """Every name that is looked up."""
    return tuple(dict.fromkeys(name for claim in claims for name in claim.absent))


def as_json(claim_entry: Entry) -> dict[str, Any]:
    """For programs: the entry, `measured`, `low` and `high` as numbers, its arms below."""
    fields = asdict(claim_entry) | {"measured": claim_entry.value, "text": claim_entry.measured}
    return fields | {"lines": [asdict(one) | {"measured": one.value, "text": one.measured} for one in claim_entry.lines]}
