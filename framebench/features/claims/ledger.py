"""The ledger: each claim with what was measured, the verdict, and the records behind it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from framebench.analysis.results import Results
from framebench.features.claims.advice import advice
from framebench.features.claims.claim import Arm, Claim
from framebench.features.claims.entries import Entry, Line, hull
from framebench.features.claims.measures import DoesNotRun, Nothing, OfCases, Planned
from framebench.features.claims.needs import Conditions
from framebench.features.claims.registry import REGISTRY
from framebench.features.claims.rule import DOES_NOT_RUN, NOT_MEASURED, UNMET, Effect, Verdict, decide, sides, sign, summary
from framebench.features.claims.samples import TIME
from framebench.features.claims.store import NAMES, Measured
from framebench.suite.case import DEFAULT_SIZE, Case


def ledger(results: Results, machine: str, size: str = DEFAULT_SIZE, ids: Iterable[str] = ()) -> list[Entry]:
    """Every claim (or those named) as measured on a machine. Raises UnknownClaim."""
    measured = Measured(results, machine)
    return [entry(claim, measured, size) for claim in REGISTRY.chosen(ids)]


def measured_there(claim_entry: Entry) -> bool:
    """Whether its machine has records behind it: a claim by definition, or with a precondition, has a verdict without any."""
    return bool(claim_entry.records) and claim_entry.verdict != NOT_MEASURED


def entry(claim: Claim, measured: Measured, size: str) -> Entry:
    lines = [line(claim, arm, measured, size) for arm in claim.every_arm if applies(arm, size)]
    met = [one for one in lines if one.decides and one.verdict != UNMET]
    leading = met[0].metric if met else ""
    verdict = verdict_on(claim, measured, lines)
    first = [one for one in met if one.metric == leading and one.value is not None]
    first = [one for one in first if one.verdict == verdict] or first  # the others are named in the remark
    files = [f for one in lines for f in one.records] + (measured.files([], NAMES) if claim.absent else [])
    return Entry(
        claim.id, claim.part, claim.source, claim.says, verdict, claim.claimed, claim.metric,
        *hull([one for one in first if one.low is not None] or first), first[0].form if first else "", advice(claim, lines),
        claim.transfers_to_gpu, claim.why, remark(claim, lines), command(claim, lines, verdict, size),
        tuple(dict.fromkeys(files)), tuple(lines), measured.machine, size, measured.protocol,
    )  # fmt: skip


def applies(arm: Arm, size: str) -> bool:
    """Small sizes lack some batches."""
    return isinstance(arm.measure, Planned) or bool(arm.measure.probe or arm.measure.cases(size))


def verdict_on(claim: Claim, measured: Measured, lines: Sequence[Line]) -> Verdict:
    """By definition only where no arm says otherwise; no such API where a look-up found none of the names."""
    deciding = [one.verdict for one in lines if one.decides]
    if claim.absent:
        looked_up = measured.probe(NAMES)
        if looked_up is None or any(name not in looked_up.names for name in claim.absent):
            return NOT_MEASURED
        if not any(looked_up.names[name] for name in claim.absent):
            return "no such API"
    if not claim.arms and claim.needs.unmet(Conditions()):
        return UNMET
    judged_all = summary(deciding)
    return "by definition" if claim.definition and judged_all in ("reproduced", NOT_MEASURED) else judged_all


def line(claim: Claim, arm: Arm, measured: Measured, size: str) -> Line:
    """The arm's effect and verdict; without records, what is missing. Where the claim's precondition is not met, its number is
    shown and decides nothing."""
    found = judged(claim, arm, measured, size)
    unmet = claim.needs.unmet(measured.conditions(arm.measure, size)) if found.decides else ""
    if not unmet and measured.on_cpu and any(Case.of(case).support.gpu for case in found.missing):
        unmet = "needs a GPU"
    return replace(found, verdict=UNMET, remark=unmet) if unmet else found


def judged(claim: Claim, arm: Arm, measured: Measured, size: str) -> Line:
    """An arm by its numbers alone."""
    measure, target = arm.measure, arm.target
    planned = isinstance(measure, Planned)
    cases = measure.planned() if isinstance(measure, Planned) else measure.cases(size)
    missing = [] if planned else [case for case in cases if not measured.records(case)]
    failures = {case.id: measured.failure(case) for case in missing}
    name = f"{arm.name} {measure.where(size)}".strip()
    files = measured.planned_files(cases) if planned else measured.files([] if missing else cases, measure.probe, _timed(arm))
    blank = Line(
        f"{claim.name}/{name}", name, arm in claim.arms, NOT_MEASURED, measure.form, measure.about, target.null,
        claimed=target.value, ours=target.ours, planned=planned, cases=tuple(case.id for case in cases),
        missing=tuple(failures), tried=any(failures.values()), records=tuple(files),
        remark="; ".join(f"{name}: {why}" for name, why in failures.items() if why),
    )  # fmt: skip
    if missing:
        return blank
    if idle := [case.id for case in cases if not planned and not measured.proven(case)]:
        return replace(blank, tried=True, remark=f"the strategy was not seen at work in {', '.join(idle)}")
    try:
        return _with(blank, measure.effect(measured, size), arm)
    except Nothing as why:
        verdict = DOES_NOT_RUN if isinstance(why, DoesNotRun) else NOT_MEASURED
        return replace(blank, verdict=verdict, remark=f"{name}: {why}" if verdict == DOES_NOT_RUN else str(why))


def _with(blank: Line, effect: Effect, arm: Arm) -> Line:
    low, high = (end if math.isfinite(end) else None for end in (effect.low, effect.high))
    verdict = decide(effect, arm.target)
    return replace(blank, verdict=verdict, value=effect.value, low=low, high=high, sign=sign(effect, arm.target))


def _timed(arm: Arm) -> bool:
    """Whether it is a ratio of step times."""
    return isinstance(arm.measure, OfCases) and arm.measure.quantity is TIME


def remark(claim: Claim, lines: Sequence[Line]) -> str:
    """What the numbers cannot say: who disagrees, what is not met or missing, proofs, and facts from documents."""
    deciding = [one for one in lines if one.decides]
    counted = [one for one in deciding if one.verdict != UNMET]
    absent = [one for one in counted if one.value is None]
    missing = f"{len(absent)} of {len(counted)} arms have no number." if absent else ""
    undecided = [one.name for one in counted if one.value is not None and one.verdict == "undecided"]
    told = f"Undecided: {', '.join(undecided)}" if undecided and len(undecided) < len(counted) else ""
    disagree = sides((one.name, one.verdict) for one in deciding)
    why = "; ".join(dict.fromkeys(one.remark for one in counted if one.remark))
    proof = claim.definition and f"By definition: {claim.definition}"
    parts = (disagree, proof, told, _unmet(claim, deciding), missing, why, claim.note)
    return " ".join(part if part.endswith(".") else f"{part}." for part in parts if part)


def _unmet(claim: Claim, deciding: Sequence[Line]) -> str:
    """What is not as the claim needs it, with the number of arms that are shown and do not decide."""
    counts = Counter(one.remark for one in deciding if one.verdict == UNMET)
    told = [f"{count} arms decide nothing: {why}" for why, count in counts.items()]
    return claim.needs.unmet(Conditions()) if not claim.arms else ". ".join(told)


def command(claim: Claim, lines: Sequence[Line], verdict: Verdict, size: str) -> str:
    """How to measure what is missing here; empty where nothing is, was tried in vain, or no records can be had."""
    lacking = [one for one in lines if one.decides and one.verdict == NOT_MEASURED]
    missing = any(not one.tried for one in lacking) or (verdict == NOT_MEASURED and not lacking)
    where = "" if size == DEFAULT_SIZE else f" --size {size}"
    return f"framebench claims {claim.id} --run{where}" if missing else ""


def names(claims: Iterable[Claim]) -> tuple[str, ...]:
    """Every name that is looked up."""
    return tuple(dict.fromkeys(name for claim in claims for name in claim.absent))
