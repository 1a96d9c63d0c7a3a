"""The ledger: each claim with what was measured, the verdict, and the records behind it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from framebench.analysis.results import Results
from framebench.features.claims.advice import advice
from framebench.features.claims.claim import Arm, Claim
from framebench.features.claims.entries import Entry, Line, counted, either, hull, qualifier
from framebench.features.claims.measures import DoesNotRun, Measure, Nothing, OfCases, Ratio
from framebench.features.claims.needs import Conditions
from framebench.features.claims.planned_measures import OF_PLANS, Planned
from framebench.features.claims.registry import REGISTRY
from framebench.features.claims.rule import (
    DOES_NOT_RUN,
    NOT_MEASURED,
    UNMET,
    Effect,
    Verdict,
    between,
    decide,
    sides,
    sign,
    summary,
)
from framebench.features.claims.samples import ADDED, PEAK, RESERVED, TIME, evidence
from framebench.features.claims.store import NAMES, Measured
from framebench.suite.case import DEFAULT_SIZE, Case

# what a plan calls what is measured
AS_PLANNED = {PEAK.name: "peak", RESERVED.name: "peak", ADDED.name: "added", evidence("saved_bytes").name: "kept"}


def ledger(results: Results, machine: str, size: str = DEFAULT_SIZE, ids: Iterable[str] = ()) -> list[Entry]:
    """Every claim (or those named) as measured on a machine. Raises UnknownClaim."""
    measured = Measured(results, machine)
    return [entry(claim, measured, size) for claim in REGISTRY.chosen(ids)]


def measured_there(claim_entry: Entry) -> bool:
    """Whether its machine has records behind it: a claim by definition, or with a precondition, has a verdict without any."""
    return bool(claim_entry.records) and claim_entry.verdict != NOT_MEASURED


def entry(claim: Claim, measured: Measured, size: str) -> Entry:
    lines = [line(claim, arm, measured, size) for arm in claim.every_arm if applies(arm, size)]
    verdict = verdict_on(claim, measured, lines)
    arms = counted(lines)
    alike = [one for one in arms if one.form == arms[0].form]
    where = measured.elsewhere(NAMES) if claim.absent else ""
    files = [f for one in lines for f in one.records] + (measured.files([], NAMES) if claim.absent else [])
    return Entry(
        claim.id, claim.part, claim.source, claim.says, verdict, qualifier(verdict, lines, claim.transfers_to_gpu),
        claim.claimed, claim.metric, *hull([one for one in alike if one.low is not None] or alike),
        alike[0].form if alike else "", advice(claim, lines), claim.transfers_to_gpu, claim.why, remark(claim, lines, where),
        command(claim, lines, verdict, size), tuple(dict.fromkeys(files)), tuple(lines), measured.machine, size,
        measured.protocol,
    )  # fmt: skip


def applies(arm: Arm, size: str) -> bool:
    """Small sizes lack some batches."""
    return isinstance(arm.measure, OF_PLANS) or bool(arm.measure.probe or arm.measure.cases(size))


def verdict_on(claim: Claim, measured: Measured, lines: Sequence[Line]) -> Verdict:
    """By definition only where no arm says otherwise; no such API where a look-up found none of the names."""
    deciding = [one.verdict for one in lines if one.decides]
    if claim.absent:
        looked_up = measured.probe(NAMES)
        if looked_up is None or any(name not in looked_up.names for name in claim.absent):
            return NOT_MEASURED
        if not any(looked_up.names[name] for name in claim.absent):
            return "no such API"
    if claim.needs.lacking():
        return NOT_MEASURED
    if not claim.arms and claim.needs.unmet(Conditions()):
        return UNMET
    judged_all = summary(deciding)
    return "by definition" if claim.definition and judged_all in ("reproduced", NOT_MEASURED) else judged_all


def line(claim: Claim, arm: Arm, measured: Measured, size: str) -> Line:
    """The arm's effect and verdict; without records, what is missing. Where the claim's precondition is not met, its number is
    shown and decides nothing."""
    here = measured.conditions(arm.measure, size)
    found = replace(judged(claim, arm, measured, size), device=here.device)
    unmet = (claim.needs.unmet(here) or untreated(claim, arm, measured, size)) if found.decides else ""
    if not unmet and measured.on_cpu and any(Case.of(case).support.gpu for case in found.missing):
        unmet = "needs a GPU"
    return replace(found, verdict=UNMET, remark=unmet) if unmet else found


def untreated(claim: Claim, arm: Arm, measured: Measured, size: str) -> str:
    """Where what the claim's change must reach is none at all: then the arm compares two equal steps."""
    if claim.reaches is None or not isinstance(arm.measure, Ratio):
        return ""
    cases = arm.measure.cases(size)
    reached = claim.reaches.estimate(measured.records(cases[1])) if cases else None
    return f"the change reached nothing here ({claim.reaches.name}: 0)" if reached and reached.high == 0 else ""


def judged(claim: Claim, arm: Arm, measured: Measured, size: str) -> Line:
    """An arm by its numbers alone."""
    measure, target = arm.measure, arm.target
    planned = isinstance(measure, OF_PLANS)
    decides = arm in claim.arms or stands_for(measure, claim.arms, size)
    cases = measure.planned() if isinstance(measure, OF_PLANS) else measure.cases(size)
    missing = [] if planned else [case for case in cases if not measured.records(case)]
    failures = {case.id: measured.failure(case) for case in missing}
    name = f"{arm.name} {measure.where(size)}".strip()
    files = measured.planned_files(measure) if planned else measured.files([] if missing else cases, measure.probe, _timed(arm))
    blank = Line(
        f"{claim.name}/{name}", name, decides, NOT_MEASURED, measure.form, measure.about, target.null,
        claimed=target.value, ours=target.ours, planned=planned, cases=tuple(case.id for case in cases),
        missing=tuple(failures), tried=any(failures.values()), records=tuple(files),
        elsewhere=measured.elsewhere(measure.probe), unlike="" if missing else measured.unlike(measure.cases(size)),
        remark="; ".join(f"{name}: {why}" for name, why in failures.items() if why),
    )  # fmt: skip
    if missing:
        return blank
    if idle := [case.id for case in cases if not planned and not measured.proven(case)]:
        return replace(blank, tried=True, remark=f"the strategy was not seen at work in {', '.join(idle)}")
    try:
        return on_card(blank, measured, arm, size) or _with(blank, measure.effect(measured, size), arm)
    except Nothing as why:
        verdict = DOES_NOT_RUN if isinstance(why, DoesNotRun) else NOT_MEASURED
        return replace(blank, verdict=verdict, remark=f"{name}: {why}" if verdict == DOES_NOT_RUN else str(why))


def stands_for(measure: Measure, arms: Sequence[Arm], size: str) -> bool:
    """Whether it measures the very cases and quantity that a deciding arm has planned: then it decides what its plan does."""
    if not isinstance(measure, Ratio) or measure.quantity.name not in AS_PLANNED:
        return False
    planned = (arm.measure for arm in arms if isinstance(arm.measure, Planned) and not arm.measure.batches)
    cases = measure.cases(size)
    return any(one.planned() == cases and one.quantity == AS_PLANNED[measure.quantity.name] for one in planned)


def on_card(blank: Line, measured: Measured, arm: Arm, size: str) -> Line | None:
    """On a card a peak is what is reserved, as in a plan: that must fit. What is allocated is told beside; None elsewhere."""
    measure = arm.measure
    card = measured.conditions(measure, size).device == "gpu"
    if not (card and isinstance(measure, Ratio) and measure.quantity is PEAK):
        return None
    try:
        reserved = replace(measure, quantity=RESERVED).effect(measured, size)
    except Nothing:
        return None
    allocated = _with(blank, measure.effect(measured, size), arm)
    return replace(_with(blank, reserved, arm), also=f"reserved; allocated: {allocated.measured}")


def _with(blank: Line, effect: Effect, arm: Arm) -> Line:
    low, high = (end if math.isfinite(end) else None for end in (effect.low, effect.high))
    verdict = decide(effect, arm.target)
    return replace(blank, verdict=verdict, value=effect.value, low=low, high=high, sign=sign(effect, arm.target),
                   left=between(effect, arm.target))  # fmt: skip


def _timed(arm: Arm) -> bool:
    """Whether it is a ratio of step times."""
    return isinstance(arm.measure, OfCases) and arm.measure.quantity is TIME


def remark(claim: Claim, lines: Sequence[Line], looked_up: str = "") -> str:
    """What the numbers cannot say: who disagrees, what is not met or missing, proofs, and facts from documents."""
    deciding = [one for one in lines if one.decides]
    met = [one for one in deciding if one.verdict != UNMET]
    absent = [one for one in met if one.value is None]
    missing = f"{len(absent)} of {len(met)} arms have no number." if absent else ""
    disagree = sides((one.name, one.verdict) for one in deciding)
    why = "; ".join(dict.fromkeys(one.remark for one in met if one.remark))
    proof = claim.definition and f"By definition: {claim.definition}"
    beside = [
        f"{one.name}: {one.measured}"
        for one in lines
        if not one.decides and claim.beside and claim.beside in one.name and one.value is not None
    ]
    told = f"Beside: {'; '.join(beside)}" if beside else ""
    gaps = (claim.needs.lacking(), _unmet(claim, deciding), missing, why)
    parts = (disagree, proof, _undecided(met), *gaps, told, *_circumstances(deciding, looked_up))
    return " ".join(part if part.endswith(".") else f"{part}." for part in (*parts, claim.note) if part)


def _undecided(met: Sequence[Line]) -> str:
    """Which arms are, and what their intervals leave open."""
    arms = [one for one in met if one.value is not None and one.verdict == "undecided"]
    told = [f"{one.name}, {either(one.left)}" if one.left else one.name for one in arms]
    return f"Undecided: {'; '.join(told)}" if arms and len(arms) < len(met) else ""


def _circumstances(lines: Sequence[Line], looked_up: str) -> list[str]:
    """What is not the same in both cases of an arm, and whose probes these are."""
    options: dict[str, list[str]] = {}
    for one in lines:
        if one.unlike:
            options.setdefault(one.unlike, []).append(one.name)
    elsewhere = ", ".join(sorted({looked_up, *(one.elsewhere for one in lines)} - {""}))
    told = [f"{unlike}: {', '.join(names)}" for unlike, names in options.items()]
    return told + ([f"Tried on {elsewhere}"] if elsewhere else [])


def _unmet(claim: Claim, deciding: Sequence[Line]) -> str:
    """What is not as the claim needs it, with the number of arms that do not decide, and what they are here."""
    if not claim.arms:
        return claim.needs.unmet(Conditions())
    barred = [one for one in deciding if one.verdict == UNMET]
    kinds = dict.fromkeys((one.remark, one.form) for one in barred)
    return ". ".join(_barred([one for one in barred if (one.remark, one.form) == kind]) for kind in kinds)


def _barred(lines: Sequence[Line]) -> str:
    """`3 arms decide nothing: needs a GPU; here they are +6.4 % to +98.1 %`."""
    numbers = [one for one in lines if one.value is not None]
    figures = dict.fromkeys(one.figure for one in sorted(numbers, key=lambda one: one.value or 0.0))
    told = f"; here: {' to '.join(dict.fromkeys([*list(figures)[:1], *list(figures)[-1:]]))}" if figures else ""
    told += " (one block or process: no interval)" if any(not one.bounded for one in numbers) else ""
    return f"{len(lines)} {'arms decide' if len(lines) > 1 else 'arm decides'} nothing: {lines[0].remark}{told}"


def command(claim: Claim, lines: Sequence[Line], verdict: Verdict, size: str) -> str:
    """How to measure what is missing here; empty where nothing is, was tried in vain, or no records can be had."""
    lacking = [one for one in lines if one.decides and one.verdict == NOT_MEASURED]
    missing = any(not one.tried for one in lacking) or (verdict == NOT_MEASURED and not lacking and not claim.needs.lacking())
    where = "" if size == DEFAULT_SIZE else f" --size {size}"
    return f"framebench claims {claim.id} --run{where}" if missing else ""


def names(claims: Iterable[Claim]) -> tuple[str, ...]:
    """Every name that is looked up."""
    return tuple(dict.fromkeys(name for claim in claims for name in claim.absent))
