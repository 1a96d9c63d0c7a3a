"""What a case needs: by a record or a search of it, or else predicted from other batches. `predict` and `advise` ask here.

A limit on memory counts what the kernel counts. So on a CPU a peak is that of `host.rss`, in every framework, and a process
keeps something beside it, workspaces and generated kernels, which searches under a limit measured
(`framebench.analysis.searches`). On a GPU a peak is that of the framework's own instrument. Where a search tells whether a
batch fits, that is the answer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from framebench.analysis.blocks import Blocks
from framebench.analysis.frames import Row, rows
from framebench.analysis.lower_bound import WIDE, layers, lower_bound, width
from framebench.analysis.predict import fit
from framebench.analysis.results import NoRecords
from framebench.analysis.searches import Searches
from framebench.analysis.selection import select
from framebench.records import store
from framebench.records.record import case_of
from framebench.suite.case import Case
from framebench.suite.hypothetical import Described

MARGIN = 1.05  # what a budget must have over peak and kept: batches of JAX have failed at up to 2.7 % less than their limit


class Peak(NamedTuple):
    """Bytes. `low` and `high` are the interval of a prediction; `method` says what it rests on."""

    kind: Literal["measured", "predicted"]
    method: str
    value: float
    low: float | None = None
    high: float | None = None
    kept: int = 0  # what a process takes beside it and keeps; 0 if it was never measured

    @property
    def needs(self) -> int:
        """What a budget must have for this peak to fit with confidence."""
        return math.ceil((max(self.value, self.high or 0) + self.kept) * MARGIN)


def useless(r: Row) -> str | None:
    """Why a row cannot support a prediction; None if it can."""
    if r.usable:
        return None if r.step_bytes else "it has no peak"
    if r.status != "ok":
        return f"{r.status}: {r.reason or 'no reason given'}"
    return "the strategy was not seen at work" if r.verified else "its result was not verified"


def evidence_about(results: Path, machine: str, workload: str, scenario: str) -> tuple[list[Row], Blocks]:
    """The rows of a machine's records of a workload in a scenario, of one version, and the blocks that they were timed
    in. Reads no other record."""
    selected_records = select(store.of_cases(results, machine, f"{workload}.*.{scenario}.*"))
    return rows(r for r in selected_records if r.parsed.ranks == 1), Blocks(selected_records)


def bearing(every: Sequence[Row], case: Case) -> list[Row]:
    """The rows that a peak of this case can rest on, by batch: of its strategy, framework and size, and of every size where the
    model is only described. Raises NoRecords, with the reason."""
    strategy_rows = [r for r in every if (r.framework, r.strategy) == (case.framework, case.strategy)]
    if not isinstance(case, Described):
        strategy_rows = [r for r in strategy_rows if r.size == case.size]
    usable = sorted((r for r in strategy_rows if not useless(r)), key=lambda r: r.batch)
    if not usable:
        raise NoRecords("; ".join(f"{r.case}: {useless(r)}" for r in strategy_rows) or _nothing_of(case))
    return of_one_origin(usable, case)


def of_one_origin(usable: Sequence[Row], case: Case) -> list[Row]:
    """Of one machine, version and instrument: those of the case itself, or else of most rows."""

    def origin(r: Row) -> tuple[str, str | None, str | None]:
        return r.machine, r.framework_version, r.step_instrument

    counts = Counter(map(origin, reversed(usable)))
    best = next((origin(r) for r in usable if r.case == case.id), counts.most_common(1)[0][0])
    return [r for r in usable if origin(r) == best]


def _nothing_of(case: Case) -> str:
    size = "" if isinstance(case, Described) else f"/*/{case.size}"
    what = f"{case.workload}/{case.framework}/{case.scenario}/{case.strategy}{size}"
    return f"no records of {what}; measure first: framebench run '{what}'"


def expected(every: Sequence[Row], case: Case, searches: Searches) -> tuple[Peak, Row]:
    """The peak of a case, and a row that says where it was measured. Raises NoRecords, with the reason."""
    bearing_rows = bearing(every, case)
    return peak_of(bearing_rows, case, searches), bearing_rows[-1]


def peak_of(bearing_rows: Sequence[Row], case: Case, searches: Searches) -> Peak:
    """`own`: the rows that bear on it. What was measured comes first, by a record or by a search."""
    newest, kept = bearing_rows[-1], searches.kept(case) if bearing_rows[-1].step_instrument == "host.rss" else None
    exact = next((r for r in bearing_rows if r.case == case.id and not isinstance(case, Described)), None)
    if exact is not None:
        return Peak("measured", "record", exact.step_bytes or 0, kept=kept or 0)
    ran = searches.tried(case, newest.machine, newest.framework_version, newest.device).ran(case.batch)
    if ran is not None and (value := ran.peaks.get(newest.step_instrument or "")):
        return Peak("measured", "search under a limit", value, kept=ran.kept_bytes or 0)
    return predicted(bearing_rows, case)._replace(kept=kept or 0)


def predicted(bearing_rows: Sequence[Row], case: Case) -> Peak:
    if isinstance(case, Described):
        return _by_ratio(bearing_rows, case)
    batches = [r.batch for r in bearing_rows]
    if len(set(batches)) < 2:
        return _by_parts(bearing_rows[-1], case)
    value, low, high = fit(batches, [r.step_bytes or 0 for r in bearing_rows]).at(case.batch)
    method, least = f"line through batches {', '.join(map(str, batches))}", lower_bound(case).total
    if low is None or high is None:
        return Peak("predicted", method, max(value, least))
    return Peak("predicted", method, max(value, least), max(low, least), max(high, least))


def _by_parts(r: Row, case: Case) -> Peak:
    """From one batch. What does not depend on the batch is at least parameters, buffers and optimizer states, so that one end
    is a line through these and the measured peak; the other adds to the lower bound what the measured peak exceeded it by."""
    measured_bound, least = lower_bound(replace(case, batch=r.batch)), lower_bound(case)
    peak, fixed = float(r.step_bytes or 0), measured_bound.parameters + measured_bound.buffers + measured_bound.optimizer
    line = fixed + (peak - fixed) * case.batch / r.batch
    low, high = sorted((max(line, least.total), max(least.total + peak - measured_bound.total, least.total)))
    method = f"scaled from batch {r.batch}, weights and states fixed"
    return Peak("predicted", method, max(line, least.total), low, high)


def _by_ratio(bearing_rows: Sequence[Row], case: Case) -> Peak:
    """Of a model that was only described: its lower bound, times what peaks of the same strategy were to theirs.

    The lower bound counts the logits once, in the precision of the activations. A loss that is not fused with its gradient
    holds three copies in float32, and the vocabulary may be far larger than in what was measured: the upper end has them.
    """
    ratios = [(r.step_bytes or 0) / lower_bound(case_of(r.case)).total for r in bearing_rows]
    least = lower_bound(case).total
    logits = layers(case)[-1].elements * (case.batch // case.plan.micro_batches)
    low, high = min(ratios) * least, max(ratios) * least + (3 * WIDE - width(case)) * logits
    method = f"lower bound x {min(ratios):.2f} to {max(ratios):.2f}, with one to three copies of the logits"
    return Peak("predicted", method, (low + high) / 2, low, high)
