"""Advice as tables, sentences and JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from framebench.analysis.comparison import DETAIL, ESSENTIAL, MIB, Comparison, Shown, mib
from framebench.analysis.frames import Row
from framebench.analysis.peaks import MARGIN
from framebench.analysis.tables import conditions, relative
from framebench.budget.advise.advice import Advice, Change, Offer, calibrated

HEAD = (
    "framework",
    Shown("strategy", priority=ESSENTIAL),
    "batch",
    Shown("peak MiB", priority=ESSENTIAL),
    Shown("needs MiB", priority=ESSENTIAL),
    "throughput",
    "x torch",
    Shown("judged by", priority=DETAIL),
    Shown("measured at", priority=DETAIL),
    Shown("of budget", priority=DETAIL),
    Shown("kept MiB", priority=DETAIL),
)
FEW = 5  # rows of a table, unless all are asked for
BATCH_NORM = "batch norm sees one micro-batch, or one rank's part, for another gradient"
CAPTION = (
    f"needs: {MARGIN:.2f} x (peak + what a process keeps beside it), in MiB (2^20 bytes). x torch: step time over PyTorch's "
    "baseline. How advice is given: docs/budget.md#advice."
)


def tables(advice: Advice, every: bool = False) -> Iterator[Comparison]:
    """What fits; what fits and computes something else; what does not fit, closest first. Unless `every`, the first rows of the
    first of these."""
    q = advice.question
    what = f"{q.workload} {q.scenario}, {f'batch {q.batch}' if q.batch else 'largest batch'}, size {q.size}"
    parts = (
        (advice.fitting, order(advice)),
        (advice.changed, "another model or another step: what it computes is not what the baseline does"),
        (advice.beyond, "too large, closest first"),
    )
    for offers, title in parts if every else [next((part for part in parts if part[0]), parts[0])]:
        shown = offers if every else offers[:FEW]
        several = len({o.evidence.machine for o in shown}) > 1
        if shown:
            yield Comparison.of_text(
                f"{what}, within {mib(q.budget)} MiB: {title}",
                f"{CAPTION} Speeds by {advice.machine}. {conditions(evidence(shown))}",
                (*HEAD, *(["machine"] if several else [])),
                tuple(_cells(o, q.budget) + ((o.evidence.machine,) if several else ()) for o in shown),
                left=3,
                notes=tuple(_notes(shown)),
                machine=advice.machine,
            )


def order(advice: Advice) -> str:
    """What those that fit are sorted by."""
    if advice.question.by == "speed" and any(o.throughput for o in advice.fitting):
        return "fastest first"
    by, batch = advice.question.by, advice.question.batch
    return "largest batch first" if by == "batch" or (by == "speed" and batch is None) else "smallest peak first"


def _cells(o: Offer, budget: int) -> tuple[str, ...]:
    speed = o.speed
    return (
        o.case.framework,
        o.case.strategy,
        str(o.case.batch),
        mib(o.peak.value) if o.peak.low is None else f"{mib(o.peak.value)} ({mib(o.peak.low)} - {mib(o.peak.high)})",
        mib(o.peak.needs),
        f"{rate(speed)}{'' if calibrated(speed) else ' not calibrated'}" if speed and speed.throughput else "not timed",
        relative(pd.DataFrame([speed]), "torch_ratio")[0] if speed else "-",
        o.judge,
        f"b{speed.batch} {speed.size}" if speed else "-",
        f"{o.peak.needs / budget:.0%}",
        mib(o.peak.kept or None),
    )


def rate(speed: Row) -> str:
    return f"{speed.throughput:,.1f} {speed.unit}/s"


def evidence(offers: Sequence[Offer]) -> pd.DataFrame:
    return pd.DataFrame([o.evidence for o in offers])


def _notes(offers: Sequence[Offer]) -> Iterator[str]:
    for o in offers:
        if o.peak.kind == "predicted":
            tried = f"; that it {'fits' if o.fits else 'does not fit'} was tried" if o.judge == "search" else ""
            yield f"{o.case.framework} {o.case.strategy} b{o.case.batch}: predicted, {o.peak.method}{tried}"
        if not o.case.same_mathematics:
            why = BATCH_NORM if o.case.plan.same_loss else o.case.plan.summary
            yield f"{o.case.framework} {o.case.strategy}: {why}"


def short(o: Offer) -> str:
    return f"{o.case.framework} {o.case.strategy} at batch {o.case.batch} ({o.peak.kind} {mib(o.peak.value)} MiB)"


TRY = "`framebench max-batch` tries it, and may find more"


def answer(advice: Advice, roomiest: Offer | None) -> Iterator[str]:
    """The answer in words, first of all. `roomiest`: the largest batch that fits at all, where the one asked for does not."""
    if not advice.fitting:
        yield from nothing(advice, roomiest)
        return
    best, q = advice.fitting[0], advice.question
    how = {
        "search": "was tried under an enforced limit",
        "record": "follows from its measured peak",
        "prediction": f"is predicted with room to spare ({TRY})",
    }
    least = "allows the largest batch" if order(advice).startswith("largest") else "has the smallest peak"
    fast = least if q.by != "speed" else f"{least}; no speed was measured that could rank it"
    if q.by == "speed" and best.speed and best.throughput:
        at = "" if best.speed.case == best.case.id else f", measured at b{best.speed.batch} {best.speed.size}"
        fast = f"is {fastest(advice.fitting)}: {rate(best.speed)}{at}"
    others = f"; {len(advice.fitting) - 1} others fit" if len(advice.fitting) > 1 else ""
    yield (
        f"{q.workload} {q.scenario} within {mib(q.budget)} MiB: {best.case.framework} {best.case.strategy} at batch "
        f"{best.case.batch} {fast}; that it fits {how[best.judge]}{others}."
    )
    largest = max(advice.fitting, key=lambda o: o.case.batch)
    if q.batch is None and largest.case.batch > best.case.batch:
        yield f"The largest batch is {largest.case.batch}, with {_named(largest)}: `--sort batch` orders by it."


def _named(o: Offer) -> str:
    return f"{o.case.framework} {o.case.strategy}"


def fastest(fitting: Sequence[Offer]) -> str:
    """The first, of how many, and what may be as fast."""
    if len(fitting) == 1:
        return "the only one that fits"
    first, *others = [o for o in fitting if o.throughput]
    of_which = f" of the {len(others) + 1} that were timed" if 0 < len(others) < len(fitting) - 1 else ""
    ties = [_named(o) for o in others if overlap(first.speed, o.speed)]
    return f"fastest{of_which}" + (f", with {' and '.join(ties)} as fast within their intervals" if ties else "")


def overlap(one: Row | None, other: Row | None) -> bool:
    """Whether the intervals of their step times over PyTorch's baseline do, at one batch."""
    if one is None or other is None or (one.batch, one.size) != (other.batch, other.size):
        return False
    low, high = (
        max(one.torch_ratio_low or math.inf, other.torch_ratio_low or math.inf),
        (one.torch_ratio_high, other.torch_ratio_high),
    )
    return all(end is not None and low <= end for end in high)


def sentences(advice: Advice, changes: Sequence[Change], every: bool = False) -> Iterator[str]:
    """What is said below the tables."""
    for c in changes:
        yield in_words(c, advice.question.budget)
    if uncalibrated := [o for o in advice.fitting if o.speed and not calibrated(o.speed)]:
        yield f"{len(uncalibrated)} speeds are not ranked by: framebench doctor had not passed when they were measured"
    if advice.fitting and any(o.peak.kept == 0 for o in advice.fitting):
        names = ", ".join(sorted({o.case.framework for o in advice.fitting if not o.peak.kept}))
        yield f"what a process of {names} keeps beside its tensors was never measured: framebench max-batch tries under a limit"
    if every:
        yield from (f"no advice: {case}: {why}" for case, why in advice.left_out.items())
    elif more := hidden(advice):
        yield f"--all also shows {more}"
    if advice.unmeasured:
        yield (
            f"{len(advice.unmeasured)} more strategies could be measured, the first by: "
            f"framebench run {' '.join(advice.unmeasured[:2])}"
        )


def hidden(advice: Advice) -> str:
    """What the few rows leave out, counted."""
    counts = {
        "more that fit": len(advice.fitting) - FEW, "that fit and compute something else": len(advice.changed),
        "that are too large": len(advice.beyond), "records that are no advice": len(advice.left_out),
    }  # fmt: skip
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count > 0)


def nothing(advice: Advice, roomiest: Offer | None) -> Iterator[str]:
    if not advice.beyond:
        yield "nothing that computes the same has a record that could be advice"
        return
    closest = advice.beyond[0]
    yield f"nothing fits. Closest: {short(closest)}; a budget of {_enough(closest)} MiB would do"
    if roomiest:
        yield f"the largest batch that fits: {roomiest.case.batch}, by {short(roomiest)}"
    elif advice.question.batch:
        yield "no smaller batch fits either"


def _enough(o: Offer) -> str:
    """What it needs, rounded up."""
    return f"{math.ceil(o.peak.needs / MIB * 10) / 10:,.1f}"


def in_words(c: Change, budget: int) -> str:
    fits = "fits already" if c.base.fits else f"does not fit {mib(budget)} MiB"
    start = f"from {short(c.base)}, which {fits}"
    if c.to is None:
        return f"{start}: no change that was measured makes it fit"
    if c.to.case == c.base.case:
        return f"{start}: nothing that fits is faster"
    factor = "a speed that shares no block with it" if c.time is None else f"{c.time.text} x its step time (in the same blocks)"
    elsewhere = "" if c.to.case.framework == c.base.case.framework else "; in its own framework nothing fits"
    return f"{start}: the cheapest change is to {short(c.to)}, at {factor}{elsewhere}"


def as_json(advice: Advice, changes: Sequence[Change], roomiest: Offer | None) -> dict[str, Any]:
    """For programs. Bytes are bytes, times are seconds."""
    q = advice.question
    lists = {"fitting": advice.fitting, "changed_mathematics": advice.changed, "too_large": advice.beyond}
    return (
        {"workload": q.workload, "scenario": q.scenario, "batch": q.batch, "size": q.size, "budget_bytes": q.budget}
        | {"machine": advice.machine}
        | {name: [_offer_json(o, q.budget) for o in offers] for name, offers in lists.items()}
        | {
            "changes": [
                {
                    "from": c.base.case.id,
                    "fits_already": c.base.fits,
                    "to": c.to and c.to.case.id,
                    "throughput_ratio": c.speed,
                    "time_ratio": c.time and c.time.value,
                    "time_ratio_low": c.time and c.time.low,
                    "time_ratio_high": c.time and c.time.high,
                }
                for c in changes
            ],
            "closest_budget_bytes": None if advice.fitting or not advice.beyond else round(advice.beyond[0].peak.needs),
            "largest_batch_that_fits": roomiest and _offer_json(roomiest, q.budget),
            "left_out": advice.left_out,
            "unmeasured": advice.unmeasured,
        }
    )


def _offer_json(o: Offer, budget: int) -> dict[str, Any]:
    speed = o.speed
    return {
        "case": o.case.id, "framework": o.case.framework, "framework_version": o.evidence.framework_version,
        "strategy": o.case.strategy, "batch": o.case.batch, "kind": o.peak.kind, "method": o.peak.method,
        "instrument": o.evidence.step_instrument, "machine": o.evidence.machine, "peak_bytes": round(o.peak.value),
        "low_bytes": whole(o.peak.low), "high_bytes": whole(o.peak.high), "kept_bytes": o.peak.kept,
        "needs_bytes": o.peak.needs, "share_of_budget": o.peak.needs / budget, "fits": o.fits, "judged_by": o.judge,
        "same_mathematics": o.case.same_mathematics, "throughput": speed and speed.throughput, "unit": speed and speed.unit,
        "speed_measured_at": speed and speed.case, "calibration": speed and speed.calibration,
        "step_time_s": speed.step_time_s if speed and speed.case == o.case.id else None,
    }  # fmt: skip


def whole(count: float | None) -> int | None:
    return None if count is None else round(count)
