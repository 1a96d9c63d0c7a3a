"""Find the peak of a case: by a record or a search of it, or else predicted from other batches.

`predict` and `advise` ask here.

`framebench.analysis.needs` says what a budget must have for a peak. A limit on memory counts what
the kernel counts, so on a CPU the peaks of every framework are by `host.rss`. On a GPU they are by
the framework's own instrument.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from framebench.analysis.blocks import Blocks
from framebench.analysis.frames import Row, make_blocks, make_rows
from framebench.analysis.lower_bound import (
    FLOAT32_BYTES,
    compute_lower_bound,
    get_activation_width,
    get_micro_batch,
    list_layers,
)
from framebench.analysis.needs import (
    NO_LIMITS,
    EnforcedLimits,
    compute_least_needs,
    compute_needs,
    find_kept_bytes,
    find_limits,
    is_kept_borrowed,
    is_process_unknown,
)
from framebench.analysis.predict import fit_line
from framebench.analysis.results import NoRecords
from framebench.analysis.searches import Searches
from framebench.analysis.selection import select_records, select_single
from framebench.records import store
from framebench.records.record_base import parse_case
from framebench.suite.case import Case
from framebench.suite.hypothetical import DescribedCase

# studies/batch_lines compared lines with measurements up to so many times the largest batch
STUDIED_REACH = 2

Origin = tuple[str, str | None, str | None]  # machine, framework version, instrument


class Peak(NamedTuple):
    """A peak in bytes, measured or predicted, and what the prediction rests on (`method`).

    `low` and `high` are the interval of a prediction.
    """

    kind: Literal["measured", "predicted"]
    method: str
    value: float
    low: float | None = None
    high: float | None = None
    kept_bytes: int = 0  # that the process keeps next to it; 0 if they were never measured
    is_kept_borrowed: bool = False  # those of other strategies, as no search has run this one
    limits: EnforcedLimits = NO_LIMITS

    @property
    def needs(self) -> int:
        """Return the bytes that a budget must have for this peak to be sure to fit."""
        return compute_needs(max(self.value, self.high or 0), self.kept_bytes, self.limits)

    @property
    def least_needs(self) -> int:
        """Return the bytes below which no budget holds this peak (`compute_least_needs`)."""
        peak = max(self.value, self.high or 0)
        return compute_least_needs(peak, self.kept_bytes, self.is_kept_borrowed, self.limits)


def find_fault(row: Row) -> str | None:
    """Return why a row cannot support a prediction, or None if it can."""
    if row.usable and is_process_unknown(row.device, row.shared_bytes):
        return f"only its tensors were measured ({row.step_instrument}), not what its process takes"
    if row.usable:
        return None if row.step_bytes else "it has no peak"
    if row.status != "ok":
        return f"{row.status}: {row.reason or 'no reason given'}"
    return (
        "the strategy's effect was not confirmed" if row.verified else "its result was not verified"
    )


def read_evidence(
    results: Path, machine: str, workload: str, scenario: str
) -> tuple[list[Row], Blocks]:
    """Return the rows of a machine, workload and scenario, and the blocks of the machine.

    The rows are of one version of each framework.
    """
    records = select_records(store.read_machine(results, machine))
    # of all workloads, so that a ratio has the interval that it has in every table
    blocks = make_blocks(records)
    wanted = []
    for record in select_single(records):
        if (record.parsed.workload, record.parsed.scenario) == (workload, scenario):
            wanted.append(record)
    return make_rows(wanted, machine_blocks=blocks), blocks


def select_evidence(rows: Sequence[Row], case: Case) -> list[Row]:
    """Return the rows from which this case's peak can be predicted, sorted by batch.

    The rows have the case's strategy, framework and size; a model that is only described takes rows
    of any size. All have the same machine, version and instrument: those of the row of the case
    itself, or else those that most rows have. Raises NoRecords, with the reason.
    """
    usable = []
    faults = []
    for row in rows:
        if row.framework != case.framework or row.strategy != case.strategy:
            continue
        if row.size != case.size and not isinstance(case, DescribedCase):
            continue
        fault = find_fault(row)
        if fault:
            faults.append(f"{row.case}: {fault}")
        else:
            usable.append(row)
    if not usable:
        if faults:
            raise NoRecords("; ".join(faults))
        selector = select_all_batches(case)
        raise NoRecords(f"no records of {selector}", selector)
    # the last one is scaled if all rows have the same batch
    usable.sort(key=lambda row: row.batch)
    origin = choose_origin(usable, case)
    return [row for row in usable if get_origin(row) == origin]


def choose_origin(usable: Sequence[Row], case: Case) -> Origin:
    """Return the origin of the case's own row, or else the most frequent origin.

    Of origins that are equally frequent, the one with the largest batch is taken, and among those
    the first.
    """
    for row in usable:
        if row.case == case.id:
            return get_origin(row)
    counts = Counter(map(get_origin, usable))
    return get_origin(max(usable, key=lambda row: (counts[get_origin(row)], row.batch)))


def get_origin(row: Row) -> Origin:
    """Return the machine, framework version and instrument of a row's peak."""
    return row.machine, row.framework_version, row.step_instrument


def select_all_batches(case: Case) -> str:
    """Return the selector of the cases from whose records the peak of a case can be predicted."""
    selector = f"{case.workload}/{case.framework}/{case.scenario}/{case.strategy}"
    if not isinstance(case, DescribedCase):
        selector += f"/*/{case.size}"
    return selector


def find_peak(rows: Sequence[Row], case: Case, searches: Searches) -> tuple[Peak, Row]:
    """Return the peak of a case, and a row that says where it was measured.

    Raises NoRecords, with the reason.
    """
    evidence = select_evidence(rows, case)
    return choose_peak(evidence, case, searches), evidence[-1]


def choose_peak(evidence: Sequence[Row], case: Case, searches: Searches) -> Peak:
    """Return the peak of a case from the rows in `evidence`, which `select_evidence` returns.

    A record of the case comes first, then a search that ran it, then a prediction. Raises
    NoRecords if there is none (`refuse_single_samples`).
    """
    newest = evidence[-1]
    kept_bytes = max(find_kept_bytes_of_row(case, row, searches) for row in evidence)
    is_borrowed = is_kept_borrowed(case, newest.step_instrument, searches)
    if isinstance(case, DescribedCase):  # it was neither measured nor searched
        peak = predict_described(evidence, case)
        return peak._replace(kept_bytes=kept_bytes, is_kept_borrowed=is_borrowed)
    origin = newest.machine, newest.framework_version, newest.device
    probe = searches.find_searches(case, *origin).find_finished(case.batch)
    searched_bytes = probe.peaks.get(newest.step_instrument or "") if probe else None
    measured = [row for row in evidence if row.case == case.id]
    if measured:
        peak = Peak("measured", "record", get_bytes(measured[0]))
        kept_bytes = find_kept_bytes_of_row(case, measured[0], searches)
    elif probe and searched_bytes:
        peak = Peak("measured", "search under a limit", searched_bytes)
        kept_bytes = probe.kept_bytes or 0
        is_borrowed = False
    else:
        refuse_single_samples(evidence, case)
        peak = predict_peak(evidence, case)
    limits = find_limits(case, *origin, searches)
    return peak._replace(kept_bytes=kept_bytes, is_kept_borrowed=is_borrowed, limits=limits)


def get_bytes(row: Row) -> int:
    """Return the peak of a row that has one."""
    return row.step_bytes or 0


def find_kept_bytes_of_row(case: Case, row: Row, searches: Searches) -> int:
    """Return the bytes that a process of this case keeps, by a row, or 0 if nobody measured it.

    The row may be of another batch.
    """
    kept_bytes = find_kept_bytes(
        case, row.step_instrument, row.step_bytes, row.shared_bytes, searches
    )
    return kept_bytes or 0


def predict_peak(evidence: Sequence[Row], case: Case) -> Peak:
    """Return the peak that a line through the peaks of measured batches gives at the case's batch.

    The peak is never below the lower bound. If only one batch was measured, its peak is scaled.
    """
    evidence = drop_single_samples(evidence, case)
    batches = [row.batch for row in evidence]
    if len(set(batches)) < 2:
        return predict_from_one_batch(evidence[-1], case)
    peaks = [get_bytes(row) for row in evidence]
    estimate = fit_line(batches, peaks).predict(case.batch)
    low, high = estimate.low, estimate.high
    if low is None or high is None:
        # a line through two batches has no interval
        low, high = find_range(evidence, case)
    least, most = find_limits_of_peak(evidence, case)
    value, low, high = np.clip([estimate.value, low, high], least, most).tolist()
    # the range from two batches need not include the value on their line
    low, high = min(low, value), max(high, value)
    method = f"line through batches {', '.join(map(str, batches))}"
    method += describe_reach(case.batch, max(batches))
    return Peak("predicted", method, value, low=low, high=high)


def drop_single_samples(evidence: Sequence[Row], case: Case) -> Sequence[Row]:
    """Return the rows that had several samples in the model at a time, if the case has.

    Convolutions may take another path for a single sample (`refuse_single_samples`): a line through
    such a row and others may fall with the batch. Without other rows all are returned.
    """
    if get_micro_batch(case) == 1 or case.workload_spec.has_convolutions is False:
        return evidence
    several = [row for row in evidence if get_micro_batch(parse_case(row.case)) > 1]
    return several or evidence


def refuse_single_samples(evidence: Sequence[Row], case: Case) -> None:
    """Raise NoRecords if the model gets single samples in the case, and in no row of `evidence`.

    Convolutions may take another path for a single sample: PyTorch's U-Net needs up to 2.5 times
    the upper end of such a prediction. Models that declare to have no convolutions are predicted:
    like batches of two samples and more, they never needed over 2 % more than that
    (studies/batch_lines, "Prediction of smaller batches").
    """
    if get_micro_batch(case) > 1 or case.workload_spec.has_convolutions is False:
        return
    if any(get_micro_batch(parse_case(row.case)) == 1 for row in evidence):
        return
    batches = sorted({row.batch for row in evidence})
    raise NoRecords(
        "it has one sample in the model at a time, for which convolutions may take another path "
        f"than in the measured batches, {', '.join(map(str, batches))}: framebench max-batch "
        f"'{case.workload}/{case.framework}/{case.scenario}/{case.strategy}/{case.size}' "
        f"--budget SIZE --max-batch {case.batch} runs it"
    )


def describe_reach(batch: int, largest: int) -> str:
    """Return how far a batch is beyond the largest measured one, or "" where that was studied."""
    if batch <= STUDIED_REACH * largest:
        return ""
    return f", at {batch / largest:.1f} times batch {largest}"


def find_limits_of_peak(evidence: Sequence[Row], case: Case) -> tuple[float, float]:
    """Return the least and the most bytes that the case can need.

    The least is the lower bound of its step. The most is the peak of a larger measured batch, or
    infinite if no larger one was measured. A line through noisy peaks may leave these limits.
    """
    least = float(compute_lower_bound(case).total)
    larger_peaks = [float(get_bytes(row)) for row in evidence if row.batch > case.batch]
    most = min(larger_peaks, default=math.inf)
    return least, max(most, least)


def find_range(evidence: Sequence[Row], case: Case) -> tuple[float, float]:
    """Return the smallest and the largest peak to which any of the measured batches can be scaled.

    It stands for the interval of a line through two batches. They are always on their line, so
    they do not say how far off it the next batch is.
    """
    ends: list[float] = []
    for row in evidence:
        ends += scale_peak(row, case)
    return min(ends), max(ends)


def predict_from_one_batch(row: Row, case: Case) -> Peak:
    """Return the peak scaled from another batch, with both ways to scale it as the interval."""
    scaled, shifted = scale_peak(row, case)
    method = f"scaled from batch {row.batch}, weights and states fixed"
    method += describe_reach(case.batch, row.batch)
    low, high = sorted((scaled, shifted))
    return Peak("predicted", method, scaled, low=low, high=high)


def scale_peak(row: Row, case: Case) -> tuple[float, float]:
    """Return two guesses of the case's peak, by the measured peak of another batch.

    In the first, parameters, buffers and optimizer states stay, and the rest of the measured peak
    grows in proportion to the batch. The second adds to the case's lower bound the bytes by which
    the measured peak exceeded its own. Neither is below the lower bound.
    """
    least = compute_lower_bound(case).total
    measured_bound = compute_lower_bound(replace(case, batch=row.batch))
    peak = float(get_bytes(row))

    fixed = measured_bound.parameters + measured_bound.buffers + measured_bound.optimizer
    growing = peak - fixed
    scaled = fixed + growing * case.batch / row.batch

    excess = peak - measured_bound.total
    shifted = least + excess
    return max(scaled, least), max(shifted, least)


def predict_described(evidence: Sequence[Row], case: Case) -> Peak:
    """Return the peak of a model that was only described.

    It is the model's lower bound times the ratio of measured peaks to their own lower bounds. The
    lower bound counts the logits once, in the precision of the activations. A loss that is not
    fused with its gradient holds three copies in float32, and the vocabulary may be far larger than
    in what was measured. So the upper end includes three copies.
    """
    ratios = []
    for row in evidence:
        measured_bound = compute_lower_bound(parse_case(row.case)).total
        ratios.append(get_bytes(row) / measured_bound)
    least = min(ratios)
    most = max(ratios)
    bound = compute_lower_bound(case).total
    logits = list_layers(case)[-1].elements * get_micro_batch(case)
    added_bytes_of_logit = 3 * FLOAT32_BYTES - get_activation_width(case)
    low = least * bound
    high = most * bound + added_bytes_of_logit * logits
    method = f"lower bound x {least:.2f} to {most:.2f}, with one to three copies of the logits"
    return Peak("predicted", method, (low + high) / 2, low=low, high=high)
