"""Advice as tables, sentences and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from analysis.advice.advice import MARGIN, Advice, Change, Offer
from analysis.comparison import Comparison, mib, number
from analysis.tables import conditions, relative, timing

HEAD = (
    "framework", "strategy", "batch", "peak is", "instrument", "peak MiB", "of budget", "host.rss MiB", "step ms", "x torch",
    "throughput", "measured at",
)  # fmt: skip
CAPTION = (
    "MiB = 2^20 bytes. A case fits if its peak does by its framework's own instrument (of a predicted one the upper end, and "
    f"{MARGIN - 1:.0%} more where no three batches were measured). What the kernel enforces is host.rss and the few MiB that a "
    "process keeps beside tensors: tight is what has no room for them. Predicted peaks: (from - to). Speeds are always "
    "measured, as the last column says; those of another size only rank strategies. x torch = step time over that of PyTorch's "
    "baseline at that batch: of what is undecided the order may be chance."
)


def tables(advice: Advice) -> Iterator[Comparison]:
    """What fits; what fits and computes something else; what does not fit, closest first."""
    q = advice.question
    what = f"{q.workload} {q.scenario}, {f'batch {q.batch}' if q.batch else 'largest batch'}, size {q.size}"
    for offers, title in (
        (advice.fitting, "fastest first"),
        (advice.changed, "another model or another step: what it computes is not what the baseline does"),
        (advice.beyond, "too large, closest first"),
    ):
        if offers:
            yield Comparison.of_text(
                f"{what}, within {mib(q.budget)} MiB: {title}",
                f"{CAPTION} {timing(evidence(offers))} {conditions(evidence(offers))}",
                HEAD,
                tuple(cells(o, q.budget) for o in offers),
                left=5,
                notes=tuple(notes(offers)),
                machine=advice.machine,
            )


def cells(o: Offer, budget: int) -> tuple[str, ...]:
    speed = o.speed
    same = speed is not None and speed.case == o.case.id
    return (
        o.case.framework,
        o.case.strategy,
        str(o.case.batch),
        o.peak.kind,
        o.evidence.peak_instrument or "-",
        mib(o.peak.value) if o.peak.low is None else f"{mib(o.peak.value)} ({mib(o.peak.low)} - {mib(o.peak.high)})",
        f"{o.peak.value / budget:.0%}" + (" tight" if o.tight(budget) else ""),
        mib(o.host_rss) + (" over" if o.hidden(budget) else ""),
        number(speed.step_time_s if speed and same else None, ",.1f", 1e3),
        relative(pd.DataFrame([speed]), "torch_ratio")[0] if speed else "-",
        f"{speed.throughput:,.1f} {speed.unit}/s" if speed and speed.throughput else "-",
        f"b{speed.batch} {speed.size}" if speed else "-",
    )


def evidence(offers: Sequence[Offer]) -> pd.DataFrame:
    return pd.DataFrame([o.evidence for o in offers])


def notes(offers: Sequence[Offer]) -> Iterator[str]:
    for o in offers:
        if o.peak.kind == "predicted":
            yield f"{o.case.framework} {o.case.strategy} b{o.case.batch}: predicted, {o.peak.method}"
        if not o.case.plan.same_loss:
            yield f"{o.case.framework} {o.case.strategy}: {o.case.plan.summary}"


def short(o: Offer) -> str:
    return f"{o.case.framework} {o.case.strategy} at batch {o.case.batch} ({o.peak.kind} {mib(o.peak.value)} MiB)"


def sentences(advice: Advice, changes: Sequence[Change], roomiest: Offer | None) -> Iterator[str]:
    """The answer in words. `roomiest`: the largest batch that fits at all, where the one asked for does not."""
    q = advice.question
    if not advice.fitting:
        yield from nothing(advice, roomiest)
    for c in changes:
        yield in_words(c, q.budget)
    if hidden := [short(o) for o in advice.fitting if o.hidden(q.budget)]:
        yield f"by host.rss, which the kernel enforces, these are over the budget: {'; '.join(hidden)}"
    for case, why in advice.left_out.items():
        yield f"no advice: {case}: {why}"
    if advice.unmeasured:
        yield (
            f"{len(advice.unmeasured)} more strategies could be measured, the first by: "
            f"framebench run {' '.join(advice.unmeasured[:2])}"
        )


def nothing(advice: Advice, roomiest: Offer | None) -> Iterator[str]:
    if not advice.beyond:
        yield "nothing that computes the same has a record that could be advice"
        return
    closest = advice.beyond[0]
    yield f"nothing fits. Closest: {short(closest)}; a budget of {mib(closest.peak.needs)} MiB would do"
    if roomiest:
        yield f"the largest batch that fits: {roomiest.case.batch}, by {short(roomiest)}"
    elif advice.question.batch:
        yield "no smaller batch fits either"


def in_words(c: Change, budget: int) -> str:
    fits = "fits already" if c.base.fits(budget) else f"does not fit {mib(budget)} MiB"
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
        | {name: [offer_json(o, q.budget) for o in offers] for name, offers in lists.items()}
        | {
            "changes": [
                {
                    "from": c.base.case.id,
                    "fits_already": c.base.fits(q.budget),
                    "to": c.to and c.to.case.id,
                    "throughput_ratio": c.speed,
                    "time_ratio": c.time and c.time.value,
                    "time_ratio_low": c.time and c.time.low,
                    "time_ratio_high": c.time and c.time.high,
                }
                for c in changes
            ],
            "closest_budget_bytes": None if advice.fitting or not advice.beyond else round(advice.beyond[0].peak.needs),
            "largest_batch_that_fits": roomiest and offer_json(roomiest, q.budget),
            "left_out": advice.left_out,
            "unmeasured": advice.unmeasured,
        }
    )


def offer_json(o: Offer, budget: int) -> dict[str, Any]:
    speed = o.speed
    return {
        "case": o.case.id, "framework": o.case.framework, "framework_version": o.evidence.framework_version,
        "strategy": o.case.strategy, "batch": o.case.batch, "kind": o.peak.kind, "method": o.peak.method,
        "instrument": o.evidence.peak_instrument, "machine": o.evidence.machine, "peak_bytes": round(o.peak.value),
        "low_bytes": whole(o.peak.low), "high_bytes": whole(o.peak.high), "needs_bytes": round(o.peak.needs),
        "share_of_budget": o.peak.value / budget, "fits": o.fits(budget), "host_rss_bytes": o.host_rss,
        "over_by_host_rss": o.hidden(budget), "tight": o.tight(budget), "same_mathematics": o.case.plan.same_loss,
        "throughput": speed and speed.throughput, "unit": speed and speed.unit, "speed_measured_at": speed and speed.case,
        "step_time_s": speed.step_time_s if speed and speed.case == o.case.id else None,
    }  # fmt: skip


def whole(count: float | None) -> int | None:
    return None if count is None else round(count)
