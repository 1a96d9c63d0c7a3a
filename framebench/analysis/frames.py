"""Records as flat rows, one for each case, and rows as a table.

`framebench.analysis.selection` says which of a case's records count.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from itertools import chain
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any, NamedTuple

import pandas as pd
from packaging.version import InvalidVersion, Version

from framebench.analysis.blocks import Blocks
from framebench.analysis.flops import count_step_flops
from framebench.analysis.needs import (
    compute_least_needs,
    compute_needs,
    find_kept_bytes,
    find_limits,
    is_kept_borrowed,
    is_process_unknown,
)
from framebench.analysis.searches import NO_SEARCHES, Searches
from framebench.analysis.selection import Measured, select_cases, select_single
from framebench.analysis.statistics import Ratio
from framebench.records.calibration import Calibration
from framebench.records.record import Record, count_work, get_measurement_time
from framebench.strategies.registry import list_strategies
from framebench.strategies.strategy import FRAMEWORKS, find_purpose
from framebench.suite.case import Case


class Row(SimpleNamespace):
    """One case, flat: an attribute for each of COLUMNS, in their order; None without such a number.

    `load_columns.csv` has their units and meanings. Declared here are those that code reads one by
    one, with their types.
    """

    case: str
    workload: str
    framework: str
    scenario: str
    strategy: str
    batch: int
    size: str
    ranks: int
    status: str
    reason: str | None
    verified: bool | None
    usable: bool
    only_for_claims: bool
    peak_bytes: int | None
    shared_bytes: int | None
    step_bytes: int | None
    step_instrument: str | None
    kept_lender: str | None
    relative_peak: float | None
    step_time_s: float | None
    blocks: int
    samples: int
    throughput: float | None
    throughput_low: float | None
    throughput_high: float | None
    unit: str
    torch_ratio: float | None
    machine: str
    device: str | None
    framework_version: str | None
    calibration: str
    measured_at: datetime


class Column(NamedTuple):
    """A column of the DataFrame that `framebench.load` returns."""

    name: str
    dtype: str
    unit: str
    meaning: str


def read_frame_columns(file: Path) -> tuple[Column, ...]:
    """Return the columns that a CSV file lists, in their order.

    Bytes are float64, which is exact up to 2**53 and has NaN for what is missing: matplotlib cannot
    draw pandas' NA.
    """
    with file.open(encoding="utf-8", newline="") as rows:
        return tuple(Column(**row) for row in csv.DictReader(rows))


COLUMNS = read_frame_columns(Path(__file__).with_name("load_columns.csv"))
Key = tuple[object, ...]  # equal for cases that are compared


def make_blocks(all_records: Iterable[Record]) -> Blocks:
    """Return the blocks of these records whose times count.

    The times of cases over ranks do not count: `make_frame` leaves these cases out.
    """
    cases = select_cases(select_single(all_records))
    return Blocks(chain.from_iterable(case.timed for case in cases))


def make_rows(
    all_records: Iterable[Record],
    searches: Searches = NO_SEARCHES,
    machine_blocks: Blocks | None = None,
) -> list[Row]:
    """Return a row for each machine, case and framework version of these records, in that order.

    Ratios are to the baseline of the same workload, framework, version, scenario, batch, size and
    machine. Ratios are missing where the baseline is; of peaks where two instruments read them; of
    times where the two share no block. `searches` say what processes keep next to their peak.

    The widths of intervals are estimated from `machine_blocks`. If `all_records` are only some of a
    machine's records, pass the blocks of all: a case then has the same interval in every table.
    """
    cases = select_cases(all_records)
    blocks = machine_blocks
    if blocks is None:
        blocks = Blocks(chain.from_iterable(case.timed for case in cases))
    # by the strategies that are combined, of which a baseline has none
    by_parts: dict[Key, Measured] = {}
    torch_baselines: dict[Key, Measured] = {}
    # from old to new: of several versions of PyTorch the one measured last is compared with
    for case in sorted(cases, key=lambda case: get_measurement_time(case.newest)):
        by_parts[get_comparable_key(case), list_parts(case)] = case
        if is_baseline(case) and case.newest.parsed.framework == "torch":
            torch_baselines[get_question_key(case)] = case
    rows = []
    for case in cases:
        key = get_comparable_key(case)
        base = by_parts.get((key, frozenset()))
        torch_base = torch_baselines.get(get_question_key(case))
        # a compiled case is compared with the same parts without those that compile
        eager = None
        compiling = list_compiling_parts(case)
        if compiling:
            eager = by_parts.get((key, list_parts(case) - compiling))
        rows.append(make_row(case, base, torch_base, eager, blocks, searches))
    return rows


def get_question_key(case: Measured) -> Key:
    """Return the fields that a case has in common with the PyTorch baseline of its ratios."""
    parsed = case.newest.parsed
    machine = case.newest.provenance.machine
    return parsed.workload, parsed.scenario, parsed.batch, parsed.size, parsed.ranks, machine


def get_comparable_key(case: Measured) -> Key:
    """Return the fields that a case has in common with the baseline of its framework."""
    return case.newest.parsed.framework, case.newest.framework_version, *get_question_key(case)


def is_baseline(case: Measured) -> bool:
    """Return whether the strategy is the baseline of its scenario."""
    return case.newest.parsed.strategy == case.newest.parsed.scenario_spec.baseline


def list_parts(case: Measured) -> frozenset[str]:
    """Return the names of the strategies that are combined, or none for a baseline."""
    parsed = case.newest.parsed
    return frozenset(part.name for part in parsed.strategy_spec.parts) - {
        parsed.scenario_spec.baseline
    }


def list_compiling_parts(case: Measured) -> frozenset[str]:
    """Return the names of those parts of the strategy that compile the step."""
    parts = case.newest.parsed.strategy_spec.parts
    return frozenset(part.name for part in parts if part.compiles)


def make_row(
    measured: Measured,
    base: Measured | None,
    torch_base: Measured | None,
    eager: Measured | None,
    blocks: Blocks,
    searches: Searches,
) -> Row:
    """Return the row of one case.

    Args:
        measured: The records of the case.
        base: The records of its framework's baseline.
        torch_base: The records of PyTorch's baseline.
        eager: The records of the same strategies without the compiler; None if nothing is compiled.
        blocks: The blocks from which ratios of step times are computed.
        searches: See `make_rows`.
    """
    newest, record, peaked, timed = measured
    values = describe_case(newest)
    values |= describe_verification(measured)
    values |= describe_memory(record)
    values |= describe_spread(peaked)
    values |= find_needs(record, searches)
    values["needs_ratio"] = divide_needs(record, base, searches)
    values |= describe_times(timed, count_work(newest.parsed))
    values["first_step_s"] = find_first_step(measured)
    values |= describe_origin(newest)
    values["commits"] = list_commits(measured)
    values["baseline"] = is_baseline(measured)
    values["peak_ratio"] = divide_peaks(measured, base, "peak_instrument")
    values["shared_ratio"] = divide_peaks(measured, base, "shared_instrument")
    values["relative_peak"] = divide_peaks(measured, base, "step_instrument")
    values["eager_ratio"] = divide_peaks(measured, eager, "peak_instrument")
    to_base = find_time_ratio(blocks, base, measured)
    to_torch = to_base  # the same baseline for PyTorch's own strategies
    if torch_base is not base:
        to_torch = find_time_ratio(blocks, torch_base, measured)
    values |= name_ratio("time_ratio", to_base)
    values |= name_ratio("torch_ratio", to_torch)
    if to_base is not None:
        values |= {"relative_throughput": 1 / to_base.value, "time_ratio_p": to_base.p}
    in_order: dict[str, Any] = dict.fromkeys(column.name for column in COLUMNS)
    return Row(**(in_order | values))


def describe_case(newest: Record) -> dict[str, Any]:
    """Return the columns that say which case it is, and how its newest record ended."""
    case = newest.parsed
    return dict(
        case=newest.case,
        workload=case.workload,
        framework=case.framework,
        scenario=case.scenario,
        strategy=case.strategy,
        kind=find_purpose(case.strategy_spec, case.scenario_spec.baseline),
        batch=case.batch,
        base_batch=is_base_batch(case),
        size=case.size,
        ranks=case.ranks,
        unit=case.workload_spec.unit if case.is_known else "",
        same_mathematics=case.same_mathematics,
        only_for_claims=case.strategy_spec.only_for_claims,
        status=newest.status,
        reason=newest.reason,
        usable=newest.usable,
    )


def describe_verification(measured: Measured) -> dict[str, Any]:
    """Return the columns of the verification, and of the proof that the strategy was on."""
    newest = measured.newest
    check = newest.verification
    mathematics = check.mathematics if check else None
    return dict(
        verified=newest.verified,
        worst_error=find_worst_error(measured),
        mathematics_error=mathematics.error if mathematics else None,
        effect_proven=newest.effect.proven if newest.effect else None,
    )


def describe_memory(record: Record) -> dict[str, Any]:
    """Return the columns of what was measured of memory, in bytes, and by which instrument."""
    instrument = record.peak_instrument or ""
    rank_peaks = [rank.peaks[instrument] for rank in record.ranks if instrument]
    return dict(
        peak_bytes=record.peak_bytes,
        peak_instrument=record.peak_instrument,
        fullest_rank_bytes=max(rank_peaks, default=None),
        emptiest_rank_bytes=min(rank_peaks, default=None),
        predicted_bytes=record.predicted_bytes,
        host_rss_bytes=record.peaks.get("host.rss"),
        shared_bytes=record.peaks.get(record.shared_instrument or ""),
        shared_instrument=record.shared_instrument,
        step_bytes=record.peaks.get(record.step_instrument or ""),
        step_instrument=record.step_instrument,
        cold_peak_bytes=record.cold_peaks.get(instrument),
        live_bytes=record.live_bytes,
        elsewhere_bytes=sum(record.elsewhere.values()),
        library_bytes=record.library_bytes,
        activation_bytes=get_activation_bytes(record),
    )


def describe_spread(peaked: Sequence[Record]) -> dict[str, Any]:
    """Return the columns that say how far the peaks of a case's sessions lie apart, in bytes.

    `peaked` are the records of the case whose peaks may be compared. A session that was interrupted
    and resumed may have several.
    """
    sessions = {record.provenance.session for record in peaked}
    lowest, highest = None, None
    if len(sessions) > 1:  # one session says nothing about how far others lie
        peaks = [record.peaks[record.step_instrument or ""] for record in peaked]
        lowest, highest = min(peaks), max(peaks)
    return dict(peak_sessions=len(sessions), step_low_bytes=lowest, step_high_bytes=highest)


def describe_times(timed: Sequence[Record], work: float | None) -> dict[str, Any]:
    """Return the columns of the step time and the throughput, over all blocks.

    Args:
        timed: The records with times, one for each block, the newest last.
        work: The samples or tokens of a step; None for a case that this version does not have.
    """
    step_times = [process.step_time_s for process in timed if process.step_time_s is not None]
    step_time = find_median(step_times)
    shortest, longest = None, None
    if len(step_times) > 1:  # one block says nothing about how far others lie
        shortest, longest = min(step_times), max(step_times)
    instructions = [median(process.instructions) for process in timed if process.instructions]
    newest_shares: dict[str, float] = timed[-1].shares if timed else {}
    return dict(
        step_time_s=step_time,
        step_low_s=shortest,
        step_high_s=longest,
        blocks=len(timed),
        samples=sum(len(process.step_s) for process in timed),
        instructions_per_step=find_median(instructions),
        reference_share=compute_reference_share(timed),
        throughput=divide(work, step_time),
        throughput_low=divide(work, longest),
        throughput_high=divide(work, shortest),
        collector_share=newest_shares.get("collector"),
        wait_share=newest_shares.get("wait"),
    )


def describe_origin(newest: Record) -> dict[str, Any]:
    """Return the columns that say where, when and by which program a case was measured."""
    origin = newest.provenance
    return dict(
        machine=origin.machine,
        device=newest.device,
        cpu=newest.cpu,
        threads=origin.threads,
        core=origin.core,
        framework_version=newest.framework_version,
        calibration=describe_calibration(origin.calibration),
        commit=origin.commit,
        dirty=origin.dirty,
        protocol=origin.protocol,
        session=origin.session,
        command=origin.command,
        measured_at=origin.measured_at,
    )


def divide_needs(record: Record, base: Measured | None, searches: Searches) -> float | None:
    """Return what the job needs over what `base` needs; None by different instruments."""
    if base is None or record.step_instrument != base.record.step_instrument:
        return None
    needs = find_needs(record, searches)["needs_bytes"]
    return divide(needs, find_needs(base.record, searches)["needs_bytes"])


def list_commits(measured: Measured) -> str | None:
    """Return the commits of all records of a row in order, with spaces, or None without any."""
    commits = set()
    for record in (measured.newest, measured.record, *measured.timed):
        if record.provenance.commit:
            commits.add(record.provenance.commit)
    return " ".join(sorted(commits)) or None


def find_first_step(measured: Measured) -> float | None:
    """Return the seconds of the first step in the newest block that timed it.

    Without such a block it is the newest record's.
    """
    for record in reversed(measured.timed):
        if record.first_step_s is not None:
            return record.first_step_s
    return measured.newest.first_step_s


def find_median(values: Sequence[float]) -> float | None:
    """Return the median, or None without values."""
    return median(values) if values else None


def divide(value: float | None, base: float | None) -> float | None:
    """Return a value over another, or None if one of them is missing or 0."""
    return value / base if value and base else None


def is_base_batch(case: Case) -> bool:
    """Return whether strategies are compared at the case's batch."""
    if not case.is_known or case.size not in case.workload_spec.sizes:  # a case of an older version
        return False
    return case.batch == case.workload_spec.sizes[case.size].base


def find_worst_error(measured: Measured) -> float | None:
    """Return the largest relative error of the newest block that was verified whole, or None."""
    for record in (measured.newest, *reversed(measured.timed), measured.record):
        verification = record.verification
        if verification is not None and verification.verified_in is None:
            errors = verification.relative_error.values()
            return max((error for error in errors if error is not None), default=None)
    return None


def get_activation_bytes(record: Record) -> int | None:
    """Return the bytes that a forward pass saves for the backward pass; None if not counted."""
    # it saves the results of matmuls outside of autograd's graph, where nothing counts them
    if any(part.switch == "checkpoint_dots" for part in record.parsed.parts):
        return None
    return record.activation_bytes


def describe_calibration(calibration: Calibration | None) -> str:
    """Return whether the machine's instruments passed, or which of them failed."""
    if calibration is None:
        return "not done"
    if calibration.passed:
        return "passed"
    return f"FAILED ({', '.join(calibration.failed)})"


def find_time_ratio(blocks: Blocks, base: Measured | None, case: Measured) -> Ratio | None:
    """Return the step time over that of `base`, or None if the two share no block.

    The ratio of a case over itself is exactly 1.
    """
    if base is None or not base.timed or not case.timed:
        return None
    if base is case:
        return Ratio(value=1.0, low=1.0, high=1.0)
    return blocks.compare(base.timed, case.timed)


def name_ratio(name: str, ratio: Ratio | None) -> dict[str, float | None]:
    """Return the columns of a ratio of times with its interval; none without a ratio."""
    if ratio is None:
        return {}
    return {name: ratio.value, f"{name}_low": ratio.low, f"{name}_high": ratio.high}


def divide_peaks(case: Measured, base: Measured | None, instrument_field: str) -> float | None:
    """Return the peak over that of `base`, by the instrument that a field of both records names.

    Both peaks are the largest over the steps of one process. Returns None if the two records name
    different instruments.
    """
    if base is None:
        return None
    instrument = getattr(case.record, instrument_field)
    if not instrument or instrument != getattr(base.record, instrument_field):
        return None
    return divide(case.record.peaks[instrument], base.record.peaks[instrument])


def find_needs(record: Record, searches: Searches) -> dict[str, Any]:
    """Return the columns that say what the case's job needs, by the record that has its peak.

    Needs are None without a peak, and on a GPU without what the process took.
    """
    case = record.parsed
    instrument = record.step_instrument
    peak = record.peaks.get(instrument or "")
    process_bytes = record.peaks.get(record.shared_instrument or "")
    kept_bytes = find_kept_bytes(case, instrument, peak, process_bytes, searches)
    lender = searches.name_lender(case) if instrument == "host.rss" else None
    needs, least_needs = None, None
    if peak and not is_process_unknown(record.device, process_bytes):
        machine = record.provenance.machine
        limits = find_limits(case, machine, record.framework_version, record.device, searches)
        is_borrowed = is_kept_borrowed(case, instrument, searches)
        needs = compute_needs(peak, kept_bytes or 0, limits)
        least_needs = compute_least_needs(peak, kept_bytes or 0, is_borrowed, limits)
    return {
        "kept_bytes": kept_bytes,
        "kept_lender": lender,
        "needs_bytes": needs,
        "least_needs_bytes": least_needs,
    }


def compute_reference_share(timed: Sequence[Record]) -> float | None:
    """Return the speed of a step as a share of the reference matmul's, in operations a second.

    Each round is compared with its own matmul; the share is the median over rounds, then over
    blocks. None on a GPU, since the matmul is the host's, and where a step's operations are not
    counted (`flops.count_step_flops`).
    """
    if not timed or not timed[0].on_cpu:
        return None
    work = count_step_flops(timed[0].parsed)
    if not work:
        return None
    shares = []
    for record in timed:
        turns = record.turns_taken
        pairs = zip(record.step_s, turns.reference_s)
        ratios = [matmul_s / step_s for step_s, matmul_s in pairs]
        if ratios and turns.reference_flop:  # both are there in what framebench wrote
            shares.append(work / turns.reference_flop * median(ratios))
    return find_median(shares)


def make_frame(
    all_records: Iterable[Record],
    searches: Searches = NO_SEARCHES,
    machine_blocks: Blocks | None = None,
) -> pd.DataFrame:
    """Return a table with the columns of COLUMNS, in the order of the published tables.

    Cases over several ranks are left out: `framebench.ranks.table` compares them with each other.
    `machine_blocks` are as in `make_rows`.
    """
    single = select_single(all_records)
    return make_frame_of_rows(make_rows(single, searches, machine_blocks))


def make_frame_of_rows(rows: Sequence[Row]) -> pd.DataFrame:
    """Return rows as a table: by case, frameworks and strategies in the order of the catalog.

    A process that died before it could tell its version comes first.
    """
    dtypes = {column.name: column.dtype for column in COLUMNS}
    # the columns are named, so that a table without rows has them too
    table = pd.DataFrame([vars(row) for row in rows], columns=list(dtypes))
    table["measured_at"] = pd.to_datetime(table["measured_at"], utc=True)
    table["framework_version"] = order_releases(table["framework_version"])
    table = table.astype(dtypes)
    # sorted in a copy: the columns to sort by are no columns of the table
    places = table.assign(
        framework_place=table["framework"].map(FRAMEWORKS.index),
        strategy_place=list(map(find_catalog_place, table["scenario"], table["strategy"])),
    )
    cases = ["machine", "workload", "size", "scenario", "batch"]
    by = [*cases, "framework_place", "framework_version", "strategy_place", "strategy"]
    order = places.sort_values(by, na_position="first").index
    return table.loc[order].reset_index(drop=True)


@cache
def find_catalog_place(scenario: str, strategy: str) -> int:
    """Return the sort key of a strategy: its index in `list_strategies`.

    Whatever is not listed there, such as a combination of no profile, comes last.
    """
    strategies = list_strategies(scenario)
    return strategies.index(strategy) if strategy in strategies else len(strategies)


def order_releases(versions: pd.Series) -> pd.Series:
    """Return the versions as a categorical in the order of releases: 0.9.2 is before 0.10.2.

    What is no version by the common rules comes first: a record may have been written by anybody.
    """
    releases = sorted(versions.dropna().unique(), key=make_release_key)
    return versions.astype(pd.CategoricalDtype(releases, ordered=True))


def make_release_key(version: str) -> tuple[Version, str]:
    """Return the sort key of a release; a text that is no version comes first."""
    try:
        return Version(version), version
    except InvalidVersion:
        return Version("0.dev0"), version


def read_ratios(df: pd.DataFrame, name: str = "time_ratio") -> list[Ratio | None]:
    """Return each row's `time_ratio` or `torch_ratio` with its interval; None without a ratio."""
    return list(map(read_ratio, df[name], df[f"{name}_low"], df[f"{name}_high"]))


def read_ratio(value: float, low: float, high: float) -> Ratio | None:
    """Return a ratio from three cells of a table, or None if the value is missing."""
    if pd.isna(value):
        return None
    return Ratio(value) if pd.isna(low) else Ratio(value, low, high)


def find_decided(df: pd.DataFrame) -> pd.Series:
    """Return whether each row has a ratio of times, with an interval narrow enough to tell."""
    verdicts = [ratio is not None and ratio.decided for ratio in read_ratios(df)]
    return pd.Series(verdicts, df.index, dtype=bool)
