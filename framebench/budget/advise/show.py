"""Advice as tables, sentences and JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from framebench.analysis.frames import Row
from framebench.analysis.needs import MARGIN, format_needs
from framebench.analysis.peaks import Peak
from framebench.analysis.rendering import DETAIL, ESSENTIAL, Table, TableColumn, format_mib
from framebench.analysis.tables import describe_conditions, format_time_ratios
from framebench.budget.advise.advice import BudgetAdvice, Candidate, Change, is_calibrated

COLUMNS = {
    "framework": TableColumn("framework"),
    "strategy": TableColumn("strategy", priority=ESSENTIAL),
    "batch": TableColumn("batch"),
    "peak": TableColumn("peak MiB", priority=ESSENTIAL),
    "needs": TableColumn("needs MiB", format_needs, priority=ESSENTIAL),
    "throughput": TableColumn("throughput"),
    "torch_ratio": TableColumn("x torch"),
    "judge": TableColumn("judged by", priority=DETAIL),
    "measured_at": TableColumn("measured at", priority=DETAIL),
    "share": TableColumn("of budget", ".0%", priority=DETAIL),
    "kept": TableColumn("kept MiB", format_mib, priority=DETAIL),
}
FEW = 5  # rows of a table, unless all are asked for
BATCH_NORM = "batch norm sees one micro-batch, or one rank's part, for another gradient"
CAPTION = (
    f"needs: {MARGIN:.2f} x (peak + kept), which the budget must have (docs/reading.md). x torch: "
    "step time over PyTorch's baseline."
)
MAX_BATCH_HINT = "`framebench max-batch` tries it, and may find more"
WHY_IT_FITS = {
    "search": "was tried under an enforced limit",
    "record": "follows from its measured peak",
    "prediction": f"is predicted with room to spare ({MAX_BATCH_HINT})",
}


def make_tables(advice: BudgetAdvice, every: bool = False) -> Iterator[Table]:
    """Yield a table of the candidates that fit, of those that fit but compute something else, and
    of those that are too large, closest first.

    Unless `every` is set, only the first rows of the first table that has any are yielded.
    """
    parts = [
        (advice.fitting, describe_order(advice)),
        (
            advice.changed,
            "another model or another step: what it computes is not what the baseline does",
        ),
        (advice.beyond, "too large, closest first"),
    ]
    parts = [(candidates, title) for candidates, title in parts if candidates]
    if every:
        for candidates, title in parts:
            yield make_table(advice, candidates, title)
    elif parts:
        candidates, title = parts[0]
        yield make_table(advice, candidates[:FEW], title)


def make_table(advice: BudgetAdvice, candidates: Sequence[Candidate], title: str) -> Table:
    """Return the table of some candidates. The machine is a column where they are of several."""
    question = advice.question
    batch = f"batch {question.batch}" if question.batch else "largest batch"
    what = f"{question.workload} {question.scenario}, {batch}, size {question.size}"
    evidence = pd.DataFrame([c.evidence for c in candidates])
    columns = dict(COLUMNS)
    if evidence["machine"].nunique() > 1:
        columns["machine"] = TableColumn("machine")
    return Table(
        f"{what}, within {format_mib(question.budget)} MiB: {title}",
        f"{CAPTION} Speeds by {advice.machine}. {describe_conditions(evidence)}",
        pd.DataFrame([make_table_row(c, question.budget) for c in candidates]),
        columns,
        left=3,
        notes=tuple(list_candidate_notes(candidates)),
        machine=advice.machine,
    )


def make_table_row(candidate: Candidate, budget: int) -> dict[str, object]:
    """Return the values of a candidate by column; sizes in bytes."""
    speed = candidate.speed
    throughput = "not timed"
    if speed and speed.throughput:
        throughput = format_rate(speed)
        if not is_calibrated(speed):
            throughput += " not calibrated"
    return {
        "framework": candidate.case.framework,
        "strategy": candidate.case.strategy,
        "batch": candidate.case.batch,
        "peak": format_peak(candidate.peak),
        "needs": candidate.peak.needs,
        "throughput": throughput,
        "torch_ratio": format_time_ratios(pd.DataFrame([speed]), "torch_ratio")[0]
        if speed
        else None,
        "judge": candidate.judge,
        "measured_at": f"b{speed.batch} {speed.size}" if speed else None,
        "share": candidate.peak.needs / budget,
        "kept": candidate.peak.kept or None,
        "machine": candidate.evidence.machine,
    }


def describe_order(advice: BudgetAdvice) -> str:
    """Return what the candidates that fit are sorted by."""
    by, batch = advice.question.by, advice.question.batch
    if by == "speed" and any(c.throughput for c in advice.fitting):
        return "fastest first"
    if by == "batch" or (by == "speed" and batch is None):
        return "largest batch first"
    return "least memory first"


def list_candidate_notes(candidates: Sequence[Candidate]) -> Iterator[str]:
    """Yield how a peak was predicted, and why a strategy computes something else."""
    for c in candidates:
        if c.peak.kind == "predicted":
            tried = ""
            if c.judge == "search":
                tried = f"; that it {'fits' if c.fits else 'does not fit'} was tried"
            yield f"{c.name} b{c.case.batch}: predicted, {c.peak.method}{tried}"
        if not c.case.same_mathematics:
            why = BATCH_NORM if c.case.plan.same_loss else c.case.plan.summary
            yield f"{c.name}: {why}"


def format_peak(peak: Peak) -> str:
    """Return a peak in MiB, a predicted one with its interval."""
    if peak.low is None:
        return format_mib(peak.value)
    return f"{format_mib(peak.value)} ({format_mib(peak.low)} - {format_mib(peak.high)})"


def format_rate(speed: Row) -> str:
    """Return the throughput of a row with its unit."""
    return f"{speed.throughput:,.1f} {speed.unit}/s"


def describe_briefly(candidate: Candidate) -> str:
    """Return a candidate with its batch and what it needs."""
    needs = format_needs(candidate.peak.needs)
    measured = "" if candidate.peak.kind == "measured" else ", predicted"
    return f"{candidate.name} at batch {candidate.case.batch} (needs {needs} MiB{measured})"


def describe_answer(advice: BudgetAdvice, largest: Candidate | None) -> Iterator[str]:
    """Yield the answer in sentences.

    `largest`: the largest batch that fits, where the one in question does not.
    """
    if not advice.fitting:
        yield from describe_failure(advice, largest)
        return
    question = advice.question
    best = advice.fitting[0]
    others = f"; {len(advice.fitting) - 1} others fit" if len(advice.fitting) > 1 else ""
    yield (
        f"{question.workload} {question.scenario} within {format_mib(question.budget)} MiB: "
        f"{describe_briefly(best)} {describe_rank(advice)}; that it fits "
        f"{WHY_IT_FITS[best.judge]}{others}."
    )
    roomiest = max(advice.fitting, key=lambda c: c.case.batch)
    if question.batch is None and roomiest.case.batch > best.case.batch:
        yield (
            f"The largest batch is {roomiest.case.batch}, with {roomiest.name}: `--sort batch` "
            "orders by it."
        )


def describe_rank(advice: BudgetAdvice) -> str:
    """Return what the first candidate that fits is first in."""
    best = advice.fitting[0]
    if advice.question.by == "speed" and best.speed and best.throughput:
        measured_at = ""
        if best.speed.case != best.case.id:
            measured_at = f", measured at b{best.speed.batch} {best.speed.size}"
        return f"is {describe_fastest(advice.fitting)}: {format_rate(best.speed)}{measured_at}"
    by_batch = describe_order(advice).startswith("largest")
    rank = "allows the largest batch" if by_batch else "needs least"
    if advice.question.by == "speed":
        return f"{rank}; no speed was measured that could rank it"
    return rank


def describe_fastest(fitting: Sequence[Candidate]) -> str:
    """Return that the first is the fastest, of how many, and which others may be as fast."""
    if len(fitting) == 1:
        return "the only one that fits"
    first, *others = [c for c in fitting if c.throughput]
    text = "fastest"
    if 0 < len(others) < len(fitting) - 1:
        text += f" of the {len(others) + 1} that were timed"
    ties = [c.name for c in others if overlap(first.speed, c.speed)]
    if ties:
        text += f", with {' and '.join(ties)} as fast within their intervals"
    return text


def overlap(one: Row | None, other: Row | None) -> bool:
    """Return whether the intervals of two step times over PyTorch's baseline overlap, at one
    batch.
    """
    if one is None or other is None or (one.batch, one.size) != (other.batch, other.size):
        return False
    if one.torch_ratio_high is None or other.torch_ratio_high is None:
        return False
    low = max(one.torch_ratio_low or math.inf, other.torch_ratio_low or math.inf)
    return low <= min(one.torch_ratio_high, other.torch_ratio_high)


def describe_failure(advice: BudgetAdvice, largest: Candidate | None) -> Iterator[str]:
    """Yield that nothing fits, and what budget or batch would do."""
    if not advice.beyond:
        yield "nothing that computes the same has a record that could be advice"
        return
    yield f"nothing fits. Closest: {describe_briefly(advice.beyond[0])}"
    if largest:
        yield f"the largest batch that fits: {largest.case.batch}, by {describe_briefly(largest)}"
    elif advice.question.batch:
        yield "no smaller batch fits either"


def list_notes(
    advice: BudgetAdvice, changes: Sequence[Change], every: bool = False
) -> Iterator[str]:
    """Yield the sentences below the tables."""
    for change in changes:
        yield describe_change(change, advice.question.budget)

    uncalibrated = [c for c in advice.fitting if c.speed and not is_calibrated(c.speed)]
    if uncalibrated:
        yield (
            f"{len(uncalibrated)} speeds are not ranked by: framebench doctor had not passed "
            "when they were measured"
        )

    unknown_kept = sorted({c.case.framework for c in advice.fitting if not c.peak.kept})
    if unknown_kept:
        names = ", ".join(unknown_kept)
        yield (
            f"what a process of {names} keeps beside its tensors was never measured: framebench "
            "max-batch tries under a limit"
        )

    hidden = describe_hidden(advice)
    if every:
        for case, why in advice.left_out.items():
            yield f"no advice: {case}: {why}"
    elif hidden:
        yield f"--all also shows {hidden}"

    if advice.unmeasured:
        count, examples = len(advice.unmeasured), " ".join(advice.unmeasured[:2])
        yield f"{count} more strategies could be measured, the first by: framebench run {examples}"


def describe_hidden(advice: BudgetAdvice) -> str:
    """Return how much the few rows leave out."""
    counts = {
        "more that fit": len(advice.fitting) - FEW,
        "that fit and compute something else": len(advice.changed),
        "that are too large": len(advice.beyond),
        "records that are no advice": len(advice.left_out),
    }
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count > 0)


def describe_change(change: Change, budget: int) -> str:
    """Return a change in a sentence, with its cost in time."""
    base, to = change.base, change.to
    fits = "fits already" if base.fits else f"does not fit {format_mib(budget)} MiB"
    start = f"from {describe_briefly(base)}, which {fits}"
    if to is None:
        return f"{start}: no change that was measured makes it fit"
    if to.case == base.case:
        return f"{start}: nothing that fits is faster"
    cost = "a speed that shares no block with it"
    if change.time is not None:
        cost = f"{change.time.text} x its step time (in the same blocks)"
    other_framework = (
        "" if to.case.framework == base.case.framework else ("; in its own framework nothing fits")
    )
    return f"{start}: the cheapest change is to {describe_briefly(to)}, at {cost}{other_framework}"


def make_json(
    advice: BudgetAdvice, changes: Sequence[Change], largest: Candidate | None
) -> dict[str, Any]:
    """Return the advice as JSON fields. Sizes are in bytes, times in seconds."""
    question = advice.question
    budget = question.budget
    closest_budget = None
    if advice.beyond and not advice.fitting:
        closest_budget = advice.beyond[0].peak.needs
    return {
        "workload": question.workload,
        "scenario": question.scenario,
        "batch": question.batch,
        "size": question.size,
        "budget_bytes": budget,
        "machine": advice.machine,
        "fitting": [make_candidate_json(c, budget) for c in advice.fitting],
        "changed_mathematics": [make_candidate_json(c, budget) for c in advice.changed],
        "too_large": [make_candidate_json(c, budget) for c in advice.beyond],
        "changes": [make_change_json(change) for change in changes],
        "closest_budget_bytes": closest_budget,
        "largest_batch_that_fits": make_candidate_json(largest, budget) if largest else None,
        "left_out": advice.left_out,
        "unmeasured": advice.unmeasured,
    }


def make_change_json(change: Change) -> dict[str, Any]:
    """Return the change of a strategy as JSON fields; ratios are those of `to` over `from`."""
    time = change.time
    return {
        "from": change.base.case.id,
        "fits_already": change.base.fits,
        "to": change.to.case.id if change.to else None,
        "throughput_ratio": change.speed,
        "time_ratio": time.value if time else None,
        "time_ratio_low": time.low if time else None,
        "time_ratio_high": time.high if time else None,
    }


def make_candidate_json(candidate: Candidate, budget: int) -> dict[str, Any]:
    """Return a candidate as JSON fields, in bytes and seconds.

    `low_bytes` and `high_bytes` are the interval of a prediction. `kept_bytes` is what the process
    holds in addition to the peak. `judged_by` is what decides whether the candidate fits: a search,
    a record or a prediction.
    """
    case = candidate.case
    peak = candidate.peak
    speed = candidate.speed
    evidence = candidate.evidence
    return {
        "case": case.id,
        "framework": case.framework,
        "framework_version": evidence.framework_version,
        "strategy": case.strategy,
        "batch": case.batch,
        "kind": peak.kind,
        "method": peak.method,
        "instrument": evidence.step_instrument,
        "machine": evidence.machine,
        "peak_bytes": round(peak.value),
        "low_bytes": None if peak.low is None else round(peak.low),
        "high_bytes": None if peak.high is None else round(peak.high),
        "kept_bytes": peak.kept,
        "needs_bytes": peak.needs,
        "share_of_budget": peak.needs / budget,
        "fits": candidate.fits,
        "judged_by": candidate.judge,
        "same_mathematics": case.same_mathematics,
        "throughput": speed.throughput if speed else None,
        "unit": speed.unit if speed else None,
        "speed_measured_at": speed.case if speed else None,
        "calibration": speed.calibration if speed else None,
        "step_time_s": speed.step_time_s if speed and speed.case == case.id else None,
    }
