"""One arm of a claim as a line of the ledger: its number and verdict, or why it has none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from framebench.claims.claim import Arm, Claim
from framebench.claims.entries import Line
from framebench.claims.measures import DoesNotRun, Measure, Nothing, OfCases, Ratio
from framebench.claims.planned_measures import OF_PLANS, Planned
from framebench.claims.rule import DOES_NOT_RUN, NOT_MEASURED, UNMET, Effect, between, decide, sign
from framebench.claims.samples import ADDED, PEAK, RESERVED, TIME
from framebench.claims.store import Measured
from framebench.suite.case import Case

# what a plan calls what is measured
AS_PLANNED = {PEAK.name: "peak", RESERVED.name: "peak", ADDED.name: "added"}


def applies(arm: Arm, size: str) -> bool:
    """Small sizes lack some batches."""
    return isinstance(arm.measure, OF_PLANS) or bool(arm.measure.probe or arm.measure.cases(size))


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
        f"{claim.name}/{name}", name, arm.name, decides, NOT_MEASURED, measure.form, measure.about, target.null,
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
    """On a card a peak is what is reserved, as in PyTorch's plan: that must fit. What is allocated is told beside. None
    elsewhere, and for JAX: its plan is of what is in use, and its pool grows in ever larger pieces."""
    measure = arm.measure
    card = measured.conditions(measure, size).device == "gpu"
    if not (card and isinstance(measure, Ratio) and measure.quantity is PEAK) or measure.cases(size)[0].framework == "jax":
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
