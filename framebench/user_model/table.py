"""Make the table of `framebench try`, and the sentences around it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pandas as pd

from framebench.analysis.frames import find_decided
from framebench.analysis.needs import are_equal_amounts, compute_needs, format_needs
from framebench.analysis.rendering import (
    DETAIL,
    ESSENTIAL,
    MIB,
    Table,
    TableColumn,
    format_mib,
    format_number,
    is_missing,
)
from framebench.analysis.rows import join_words
from framebench.analysis.tables import (
    SHOWN,
    describe_conditions,
    describe_recomputation,
    describe_timing,
    format_flag,
    make_cells,
)
from framebench.records.record import Record
from framebench.records.search import Fit
from framebench.strategies.registry import BASELINES
from framebench.suite.case import Case

TIMES = ("step_time_s", "range", "relative", "first_step_s")
COLUMNS = {
    "strategy": SHOWN["strategy"],
    # by the framework's own counter, which sees what a model of a few MiB changes; host.rss does
    # not
    "peak_bytes": TableColumn("peak MiB", ",.1f", 1 / MIB, priority=ESSENTIAL),
    "peak_ratio": TableColumn("peak x base", ".2f", priority=ESSENTIAL),
    "needs_bytes": TableColumn("needs MiB", format_needs, priority=ESSENTIAL),
    "fits": TableColumn("fits", format_flag, priority=ESSENTIAL),
    "cold_peak_bytes": SHOWN["cold_peak_bytes"],
    "elsewhere_bytes": TableColumn("held elsewhere MiB", ",.1f", 1 / MIB, priority=DETAIL),
    "library_bytes": TableColumn("libraries MiB", ",.1f", 1 / MIB, priority=DETAIL),
    "activation_bytes": TableColumn("saved MiB", ",.1f", 1 / MIB),
    **{name: SHOWN[name] for name in (*TIMES, "worst_error", "effect_proven")},
    "peak_instrument": TableColumn("instrument", priority=DETAIL),
}
MEANING = "; saved = what the forward pass keeps for the backward pass"
GRAPH = "; Jittor's graph of the step, which holds no tensors, is part of both"
LIBRARIES_NOTE = (
    "libraries: what MKL, oneDNN and their like keep for their next calls, once the first step is "
    "made: room to pack matrices, generated code, reordered weights. It differs from processor to "
    "processor, grows with the number of different products and hardly with the batch, and is not "
    "there on a GPU. So it is in no peak and in no ratio of peaks, but in what a process needs."
)
SHOWN_FROM = MIB / 20  # bytes: what is less is 0.0 MiB in a table
VARIES = MIB / 2  # bytes: peaks of one step and another differ by so much (docs/try.md)
# relative: what a process takes beyond XLA's plan without being told
MOST_UNPLANNED = 0.03
TableRow = dict[Any, Any]  # a row of `framebench.analysis.frames.frame`, by column


@dataclass(frozen=True)
class Remarks:
    """Facts of a model's records that have no column in the table: they become notes below it."""

    untracked: dict[str, int]  # bytes that the baseline holds next to its tensors, by holder
    libraries: dict[str, int]  # by strategy the bytes that libraries keep for their next calls
    deterministic: list[str]  # strategies that were verified without random numbers
    rising_peaks: list[int]  # bytes of the baseline's steady steps in their order, if each is more


def collect_remarks(records: list[Record]) -> Remarks:
    """Return what the records of one model tell next to their rows."""
    untracked: dict[str, int] = {}
    libraries = {}
    deterministic = []
    rising_peaks: list[int] = []
    for record in records:
        strategy = record.parsed.strategy
        if record.elsewhere and strategy in BASELINES.values():
            untracked = record.elsewhere  # the newest counts
        if record.peak_samples and strategy in BASELINES.values():
            rising_peaks = list_rising_peaks(record)
        if record.library_bytes is not None:
            libraries[strategy] = record.library_bytes
        if record.verification and record.verification.still and strategy not in deterministic:
            deterministic.append(strategy)
    large = {holder: size for holder, size in untracked.items() if size >= SHOWN_FROM}
    return Remarks(large, libraries, deterministic, rising_peaks)


def list_rising_peaks(record: Record) -> list[int]:
    """Return the peaks of steady steps in bytes, in their order, if each is above the one before.

    The list is empty if one is not, or is above it by what peaks vary, or if there are fewer than
    three.
    """
    instrument = record.peak_instrument
    if instrument is None:
        return []
    peaks = [sample[instrument] for sample in record.peak_samples if instrument in sample]
    rises = [later - earlier for earlier, later in pairwise(peaks)]
    return peaks if len(rises) >= 2 and min(rises) > VARIES else []


def make_table(
    df: pd.DataFrame, left_out: dict[str, str], remarks: Remarks, budget: int | None = None
) -> Table:
    """Return the table of one user model, one row per strategy.

    Notes list the strategies that failed, with their status, and those that do not apply, with the
    reason.

    Args:
        df: The rows of one model, framework, scenario and batch, with what they need (`add_needs`).
        left_out: The reason by strategy, of those that do not apply.
        remarks: From the records of the same rows.
        budget: In bytes; with one, a column says which strategies need no more.
    """
    first = df.iloc[0]
    # one without numbers shows its status as its peak
    peaks = df["peak_bytes"].astype(object).where(df["status"] == "ok", df["status"])
    model_name = first["size"]  # a user model's name takes the place of the size
    return Table(
        f"{model_name} in {first['framework']}, {first['scenario']}, batch {first['batch']}",
        make_caption(df),
        make_cells(df).assign(peak_bytes=peaks, fits=find_fitting(df, budget)),
        choose_columns(df, remarks),
        left=1,
        notes=tuple(list_notes(df, left_out, remarks)),
        machine=first["machine"],
        cases=tuple(df["case"]),
    )


def make_caption(df: pd.DataFrame) -> str:
    """Return what the columns of the table mean, and how its rows were measured."""
    first = df.iloc[0]
    meaning = MEANING if df["activation_bytes"].any() else ""
    graph = GRAPH if first["framework"] == "jittor" else ""
    return (
        f"base = {BASELINES[first['scenario']]}; MiB = 2^20 bytes; peak = the most that a steady "
        f"step has in use, cold = that of the first step, with compilation{graph}; needs = what a "
        f"budget must have (docs/reading.md){meaning}. "
        "verified = largest relative error of the losses and the gradient's norm against your "
        "float32 baseline; every tensor was compared too. effect = whether the strategy was seen "
        f"to be on. {describe_timing(df)} {describe_conditions(df)}"
    )


def find_fitting(df: pd.DataFrame, budget: int | None) -> pd.Series:
    """Return for each row whether it needs no more than a budget in bytes; None if unknown."""
    fitting: list[bool | None] = []
    for needs in df["needs_bytes"]:
        fitting.append(None if budget is None or is_missing(needs) else needs <= budget)
    return pd.Series(fitting, df.index, dtype=object)


def choose_columns(df: pd.DataFrame, remarks: Remarks) -> dict[str, TableColumn]:
    """Return the columns that have something to show."""
    hidden = set()
    if not remarks.untracked:
        hidden.add("elsewhere_bytes")
    if not has_libraries(df):
        hidden.add("library_bytes")
    if not df["activation_bytes"].any():
        hidden.add("activation_bytes")
    if not df["step_time_s"].any():
        hidden.update(TIMES)
    return {name: column for name, column in COLUMNS.items() if name not in hidden}


def list_notes(df: pd.DataFrame, left_out: dict[str, str], remarks: Remarks) -> Iterator[str]:
    """Yield the notes below the table."""
    if remarks.untracked:
        largest_first = sorted(remarks.untracked.items(), key=lambda holder: -holder[1])
        holders = [f"{name} ({format_mib(size)} MiB)" for name, size in largest_first]
        yield f"held elsewhere, and part of every peak: {', '.join(holders)}"
    if remarks.rising_peaks:
        peaks = ", ".join(map(format_mib, remarks.rising_peaks))
        yield (
            f"the baseline's peak rises from step to step ({peaks} MiB): your file keeps more and "
            "more, as in a list or a buffer, or its steps differ; `framebench grow` with this file "
            "tells which"
        )
    if has_libraries(df):
        yield LIBRARIES_NOTE
    yield from describe_unplanned(df)
    if remarks.deterministic:
        yield (
            "the model draws random numbers, as dropout does, and they stay on while memory and "
            f"time are measured; {', '.join(remarks.deterministic)}: verified without them, as "
            "they may be drawn in another order than the baseline's"
        )
    yield from describe_recomputation(df)
    for row in df[df["status"] != "ok"].itertuples():
        yield f"{row.strategy}: {row.status}: {row.reason}"
    yield from describe_left_out(left_out)


def describe_unplanned(df: pd.DataFrame) -> list[str]:
    """Return a line on the strategies whose process takes more than XLA's plan, if there are any.

    What is within the variation of peaks, or within a few percent, is not worth a line.
    """
    planned = df[(df["peak_instrument"] == "compiler.plan") & (df["step_instrument"] == "host.rss")]
    amounts = []
    rows: list[TableRow] = planned.to_dict("records")
    for row in rows:
        unplanned = row["step_bytes"] - row["peak_bytes"]
        if unplanned > max(VARIES, MOST_UNPLANNED * row["peak_bytes"]):
            amounts.append(f"{row['strategy']} {format_mib(unplanned)} MiB")
    if not amounts:
        return []
    return [
        "peak is XLA's plan, and does not have what matmuls and convolutions copy of their "
        "operands on a CPU (docs/reading.md). By host.rss a steady step takes more, which is "
        f"part of needs: {', '.join(amounts)}"
    ]


def describe_left_out(left_out: dict[str, str]) -> list[str]:
    """Return a line for each reason why strategies do not apply, with their names.

    What needs a GPU has one reason in common.
    """
    names_by_reason: dict[str, list[str]] = defaultdict(list)
    for name, reason in left_out.items():
        if reason.startswith("needs a GPU"):
            reason = "they need a GPU"
        names_by_reason[reason].append(name)
    return [f"left out: {', '.join(names)}: {why}" for why, names in names_by_reason.items()]


def add_needs(df: pd.DataFrame, remarks: Remarks) -> pd.DataFrame:
    """Return the cases with two more columns: what libraries keep, and what each case needs.

    The former is 0 where nothing counts it.
    """
    with_libraries = df.assign(library_bytes=df["strategy"].map(remarks.libraries).fillna(0))
    needs = [find_needs(row) for row in with_libraries.to_dict("records")]
    return with_libraries.assign(needs_bytes=pd.Series(needs, df.index, dtype="float64"))


def has_libraries(df: pd.DataFrame) -> bool:
    """Return whether libraries keep enough in any case to be shown."""
    return bool((df["library_bytes"] >= SHOWN_FROM).any())


def find_contradiction(df: pd.DataFrame) -> str | None:
    """Return where a forward pass saves more than the step ever had in use; None if nowhere."""
    worse = df[df["peak_bytes"] < df["activation_bytes"]]
    if worse.empty:
        return None
    row = worse.iloc[0]
    return (
        f"{row['strategy']}: a forward pass saves {format_mib(row['activation_bytes'])} MiB, and "
        f"the peak was read as only {format_mib(row['peak_bytes'])} MiB: one of the two is "
        "misread, so nothing is reported; the records are kept"
    )


def describe_verdicts(records: list[Record]) -> Iterator[str]:
    """Yield how many strategies were verified and proven, and why the others were not.

    Counted are those that compute what the baseline does, whose effect was confirmed, and whose
    mathematics was checked in float64. The newest record of a strategy counts. Narrow tables
    drop the columns that say so.
    """
    verified = 0
    proven = 0
    wrong = []
    computed = 0
    names_by_reason: dict[str, list[str]] = defaultdict(list)  # of those not checked in float64
    unproven = []
    for record in {record.case: record for record in records}.values():
        name, effect = record.parsed.strategy, record.effect
        if effect and not effect.proven and effect.reason:
            unproven.append(f"{name}: effect not proven: {effect.reason}")
        if record.verification is None:
            continue
        verified += 1
        if not record.verification.passed:
            wrong.append(name)
        elif effect and effect.proven:
            proven += 1
        outcome = record.verification.mathematics
        if outcome and outcome.computed:
            computed += 1
        elif outcome:
            names_by_reason[outcome.reason or "no reason is given"].append(name)
    suffix = f"; wrong: {', '.join(wrong)}" if wrong else ""
    yield (
        f"{verified - len(wrong)} of {verified} strategies compute the same, up to rounding; "
        f"{proven} of them were seen at work{suffix}"
    )
    yield f"{computed} of {verified} strategies were checked in float64"
    for reason, names in names_by_reason.items():
        yield f"not checked in float64: {', '.join(names)}: {reason}"
    yield from unproven


def describe_fitting(df: pd.DataFrame, budget: int) -> str:
    """Return which strategies need no more than a budget in bytes, and the fastest of them.

    A time counts if its ratio is decided, and the baseline's where others have a ratio to it.
    """
    measured = select_known(df)
    fitting = measured[measured["needs_bytes"] <= budget]
    if fitting.empty:
        return f"Nothing fits within {format_mib(budget)} MiB."
    is_base = fitting["baseline"] & fitting["time_ratio"].notna()
    timed = fitting[find_decided(df)[fitting.index] | is_base]
    summary = f"{len(fitting)} of {len(measured)} strategies fit within {format_mib(budget)} MiB"
    if timed.empty:
        leasts = find_least(fitting)
        names = join_words(leasts["strategy"])
        claim = "the one that needs least is"
        if len(leasts) > 1:
            claim = "those that need least, equally, are"
        needs = format_needs(leasts.iloc[0]["needs_bytes"])
        return f"{summary}; without times {claim} {names} ({needs} MiB)."
    best = timed.sort_values("time_ratio", kind="stable").iloc[0]
    claim = "the fastest of them is"
    if len(timed) < len(fitting):
        claim = "the fastest of those whose time is decided is"
    needs = format_needs(best["needs_bytes"])
    step = f"{format_number(best['step_time_s'], ',.1f', 1e3)} ms a step"
    sentence = f"{summary}; {claim} {best['strategy']} ({needs} MiB, {step})"
    equals = find_as_fast(timed, best)
    if equals:
        sentence += f", with {join_words(equals)} as fast within their intervals"
    return f"{sentence}."


def find_least(measured: pd.DataFrame) -> pd.DataFrame:
    """Return the row that needs least, and those that need as little."""
    ordered = measured.sort_values("needs_bytes", kind="stable")
    least = ordered["needs_bytes"].iloc[0]
    return ordered[[are_equal_amounts(needs, least) for needs in ordered["needs_bytes"]]]


def find_as_fast(timed: pd.DataFrame, best: pd.Series) -> list[str]:
    """Return the strategies whose times cannot be told from those of the fastest, `best`.

    The intervals of their ratios to the baseline overlap. The baseline's own ratio is 1, and so is
    its interval.
    """
    lows = timed["time_ratio_low"].fillna(timed["time_ratio"])
    highest = best["time_ratio"] if is_missing(best["time_ratio_high"]) else best["time_ratio_high"]
    is_other = timed["strategy"] != best["strategy"]
    return list(timed[is_other & (lows <= highest)]["strategy"])


def describe_least(df: pd.DataFrame) -> list[str]:
    """Return which strategy needs least, of those that passed verification and were seen at work.

    There is no sentence where only one did, or the baseline has no number.
    """
    measured = select_known(df)
    baselines = measured[measured["baseline"]]
    if len(measured) < 2 or baselines.empty:
        return []
    base = baselines.iloc[0]
    leasts = find_least(measured)
    if leasts["baseline"].any():
        return [f"No strategy needs less than {base['strategy']}."]
    least = leasts.iloc[0]
    verb = "needs least" if len(leasts) == 1 else "need least, equally"
    share = least["needs_bytes"] / base["needs_bytes"]
    return [
        f"{join_words(leasts['strategy'])} {verb}: {format_needs(least['needs_bytes'])} MiB, "
        f"{share:.0%} of what {base['strategy']} needs."
    ]


def select_known(df: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that passed verification, and of which it is known what they need."""
    return df[df["usable"] & df["needs_bytes"].notna()]


def find_needs(row: TableRow) -> float | None:
    """Return the bytes that a budget must have for a row's strategy; None if that is unknown.

    Both must fit: a steady step, next to whose peak libraries keep what they took before, and the
    first step, whose peak has that in it. A steady step is read by the larger of the framework's
    own counter and `host.rss`: a limit holds what the kernel counts, and in a small model that may
    miss what went into holes between blocks.
    """
    if is_missing(row["peak_bytes"]):
        return None
    steady = row["peak_bytes"]
    device = row.get("device")
    if not is_missing(device) and device != "cpu":  # a process there has a pool and a context
        process_bytes = row.get("shared_bytes")
        return None if is_missing(process_bytes) else compute_needs(max(steady, process_bytes), 0)
    if row.get("step_instrument") == "host.rss":
        steady = max(steady, row["step_bytes"])
    needs = compute_needs(steady, row["library_bytes"])
    if not is_missing(row["cold_peak_bytes"]):
        needs = max(needs, compute_needs(row["cold_peak_bytes"], 0))
    return needs


def make_batch_table(fits: list[Fit]) -> Table:
    """Return the largest batch that each strategy was seen to fit at."""
    return Table.of_text(
        f"The largest batch within {format_mib(fits[0].budget_bytes)} MiB",
        "Tried under an enforced limit, each batch in a fresh process; the loss was only seen to "
        "be finite.",
        ("strategy", "batch", "what was found"),
        [(Case.from_id(fit.case).strategy, fit.describe_largest(), fit.answer) for fit in fits],
        left=1,
    )
