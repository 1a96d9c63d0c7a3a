"""What a case needs: by a record or a search of it, or else predicted from other batches.

`predict` and `advise` ask here.

A limit on memory counts what the kernel counts. So on a CPU a peak is that of `host.rss`, in every
framework, and a process keeps something next to it, workspaces and generated kernels, which
searches under a limit measured (`framebench.analysis.searches`). On a GPU a peak is that of the
framework's own instrument. Where a search tells whether a batch fits, that is the answer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from framebench.analysis.blocks import Blocks
from framebench.analysis.frames import Row, make_rows
from framebench.analysis.lower_bound import (
    WIDE,
    compute_lower_bound,
    get_activation_width,
    list_layers,
)
from framebench.analysis.predict import fit_line
from framebench.analysis.results import NoRecords
from framebench.analysis.searches import Searches
from framebench.analysis.selection import select_records
from framebench.records import store
from framebench.records.record import parse_case
from framebench.suite.case import Case
from framebench.suite.hypothetical import Described

# what a budget must have over peak and kept: batches of JAX have failed at up to 2.7 % less than
# their limit
MARGIN = 1.05


class Peak(NamedTuple):
    """Bytes. `low` and `high` are the interval of a prediction; `method` says what it rests on."""

    kind: Literal["measured", "predicted"]
    method: str
    value: float
    low: float | None = None
    high: float | None = None
    kept: int = 0  # what a process takes next to it and keeps; 0 if it was never measured

    @property
    def needs(self) -> int:
        """Return what a budget must have for this peak to fit with confidence."""
        return math.ceil((max(self.value, self.high or 0) + self.kept) * MARGIN)


def find_fault(row: Row) -> str | None:
    """Return why a row cannot support a prediction; None if it can."""
    if row.usable:
        return None if row.step_bytes else "it has no peak"
    if row.status != "ok":
        return f"{row.status}: {row.reason or 'no reason given'}"
    return "the strategy was not seen at work" if row.verified else "its result was not verified"


def read_evidence(
    results: Path, machine: str, workload: str, scenario: str
) -> tuple[list[Row], Blocks]:
    """Return the rows of a machine's records of a workload in a scenario, and the blocks that they
    were timed in.

    They are of one version. No other record is read.
    """
    records = select_records(store.read_cases(results, machine, f"{workload}.*.{scenario}.*"))
    return make_rows(record for record in records if record.parsed.ranks == 1), Blocks(records)


def select_evidence(every: Sequence[Row], case: Case) -> list[Row]:
    """Return the rows that a peak of this case can rest on, by batch.

    They are of its strategy, framework and size, and of every size where the model is only
    described. Raises NoRecords, with the reason.
    """
    same = [
        row for row in every if (row.framework, row.strategy) == (case.framework, case.strategy)
    ]
    if not isinstance(case, Described):
        same = [row for row in same if row.size == case.size]
    usable = sorted((row for row in same if not find_fault(row)), key=lambda row: row.batch)
    if not usable:
        faults = [f"{row.case}: {find_fault(row)}" for row in same]
        raise NoRecords("; ".join(faults) or explain_absence(case))
    return select_one_origin(usable, case)


def select_one_origin(usable: Sequence[Row], case: Case) -> list[Row]:
    """Return the rows of one machine, version and instrument: those of the case itself, or else of
    most rows.
    """

    def origin(row: Row) -> tuple[str, str | None, str | None]:
        return row.machine, row.framework_version, row.step_instrument

    counts = Counter(map(origin, reversed(usable)))
    best = counts.most_common(1)[0][0]
    for row in usable:
        if row.case == case.id:
            best = origin(row)
            break
    return [row for row in usable if origin(row) == best]


def explain_absence(case: Case) -> str:
    """Return that there are no records of the case, and the command that makes them."""
    size = "" if isinstance(case, Described) else f"/*/{case.size}"
    what = f"{case.workload}/{case.framework}/{case.scenario}/{case.strategy}{size}"
    return f"no records of {what}; measure first: framebench run '{what}'"


def find_peak(every: Sequence[Row], case: Case, searches: Searches) -> tuple[Peak, Row]:
    """Return the peak of a case, and a row that says where it was measured.

    Raises NoRecords, with the reason.
    """
    evidence = select_evidence(every, case)
    return choose_peak(evidence, case, searches), evidence[-1]


def choose_peak(evidence: Sequence[Row], case: Case, searches: Searches) -> Peak:
    """Return the peak of a case from the rows that it can rest on.

    What was measured comes first, by a record or by a search.
    """
    newest = evidence[-1]
    kept = 0
    if newest.step_instrument == "host.rss":
        kept = searches.kept(case) or 0
    if not isinstance(case, Described):
        for row in evidence:
            if row.case == case.id:
                return Peak("measured", "record", row.step_bytes or 0, kept=kept)
    probe = searches.tried(case, newest.machine, newest.framework_version, newest.device).ran(
        case.batch
    )
    if probe is not None:
        peak = probe.peaks.get(newest.step_instrument or "")
        if peak:
            return Peak("measured", "search under a limit", peak, kept=probe.kept_bytes or 0)
    return predict_peak(evidence, case)._replace(kept=kept)


def predict_peak(evidence: Sequence[Row], case: Case) -> Peak:
    """Return the peak by a line through the measured batches, which no prediction may put below the
    lower bound.
    """
    if isinstance(case, Described):
        return predict_described(evidence, case)
    batches = [row.batch for row in evidence]
    if len(set(batches)) < 2:
        return predict_from_one_batch(evidence[-1], case)
    value, low, high = fit_line(batches, [row.step_bytes or 0 for row in evidence]).at(case.batch)
    method = f"line through batches {', '.join(map(str, batches))}"
    least = compute_lower_bound(case).total
    if low is None or high is None:
        return Peak("predicted", method, max(value, least))
    return Peak("predicted", method, max(value, least), max(low, least), max(high, least))


def predict_from_one_batch(row: Row, case: Case) -> Peak:
    """Return the peak from that of another batch.

    What does not depend on the batch is at least parameters, buffers and optimizer states, so that
    one end is a line through these and the measured peak; the other adds to the lower bound what
    the measured peak exceeded it by.
    """
    measured_bound = compute_lower_bound(replace(case, batch=row.batch))
    least = compute_lower_bound(case).total
    peak = float(row.step_bytes or 0)
    fixed = measured_bound.parameters + measured_bound.buffers + measured_bound.optimizer
    scaled = max(fixed + (peak - fixed) * case.batch / row.batch, least)
    shifted = max(least + peak - measured_bound.total, least)
    method = f"scaled from batch {row.batch}, weights and states fixed"
    return Peak("predicted", method, scaled, min(scaled, shifted), max(scaled, shifted))


def predict_described(evidence: Sequence[Row], case: Case) -> Peak:
    """Return the peak of a model that was only described: its lower bound, times what measured
    peaks were to theirs.

    The lower bound counts the logits once, in the precision of the activations. A loss that is not
    fused with its gradient holds three copies in float32, and the vocabulary may be far larger than
    in what was measured: the upper end has them.
    """
    ratios = [
        (row.step_bytes or 0) / compute_lower_bound(parse_case(row.case)).total for row in evidence
    ]
    least = compute_lower_bound(case).total
    logits = list_layers(case)[-1].elements * (case.batch // case.plan.micro_batches)
    low = min(ratios) * least
    high = max(ratios) * least + (3 * WIDE - get_activation_width(case)) * logits
    method = (
        f"lower bound x {min(ratios):.2f} to {max(ratios):.2f}, with one to three copies of "
        "the logits"
    )
    return Peak("predicted", method, (low + high) / 2, low, high)
