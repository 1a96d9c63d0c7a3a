"""Make the table of `framebench try`, and the sentences around it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from framebench.analysis.frames import find_decided
from framebench.analysis.needs import compute_needs, format_needs
from framebench.analysis.rendering import (
    DETAIL,
    ESSENTIAL,
    Table,
    TableColumn,
    format_mib,
    format_number,
    is_missing,
)
from framebench.analysis.tables import SHOWN, describe_conditions, describe_timing, make_cells
from framebench.records.record import Record
from framebench.records.search import Fit
from framebench.strategies.registry import BASELINES
from framebench.suite.result import StrategyEffect

# by the framework's own counter, which sees what a model of a few MiB changes; host.rss does not
PEAKS = {
    "peak_bytes": TableColumn("peak MiB", ",.1f", 1 / 2**20, priority=ESSENTIAL),
    "peak_ratio": TableColumn("peak x base", ".2f", priority=ESSENTIAL),
}
NEEDS = {"needs_bytes": TableColumn("needs MiB", format_needs, priority=ESSENTIAL)}
SAVED = {"activation_bytes": TableColumn("saved MiB", ",.1f", 1 / 2**20)}
MEANING = "; saved = what the forward pass keeps for the backward pass"
GRAPH = "; Jittor's graph of the step, which holds no tensors, is part of both"
UNTRACKED = {
    "elsewhere_bytes": TableColumn("held elsewhere MiB", ",.1f", 1 / 2**20, priority=DETAIL)
}
LIBRARIES = {"library_bytes": TableColumn("libraries MiB", ",.1f", 1 / 2**20, priority=DETAIL)}
SHOWN_FROM = 2**20 / 20  # bytes: what is less is 0.0 MiB in a table
TIMES = ("step_time_s", "range", "relative", "first_step_s")
NAMED = 5  # holders in a note
INSTRUMENT = {"peak_instrument": TableColumn("instrument", priority=DETAIL)}


TableRow = dict[Any, Any]  # a row of `framebench.analysis.frames.frame`, by column


@dataclass(frozen=True)
class Remarks:
    """What records tell that no column of their rows has."""

    untracked: dict[str, int]  # bytes that the baseline holds next to its tensors, by holder
    libraries: dict[str, int]  # by strategy the bytes that libraries keep for their next calls
    deterministic: list[str]  # strategies that were verified without random numbers


def collect_remarks(records: list[Record]) -> Remarks:
    """Return what the records of one model tell next to their rows."""
    untracked: dict[str, int] = {}
    libraries = {}
    deterministic = []
    for record in records:
        strategy = record.parsed.strategy
        if record.elsewhere and strategy in BASELINES.values():
            untracked = record.elsewhere  # the newest counts
        if record.library_bytes is not None:
            libraries[strategy] = record.library_bytes
        if record.verification and record.verification.still:
            deterministic.append(strategy)
    return Remarks(
        {holder: size for holder, size in untracked.items() if size >= SHOWN_FROM},
        libraries,
        list(dict.fromkeys(deterministic)),  # each once, in their order
    )


def make_table(df: pd.DataFrame, left_out: dict[str, str], remarks: Remarks) -> Table:
    """Return the table of one user model, one row per strategy.

    Notes list the strategies that failed, with their status, and those that do not apply, with the
    reason.

    Args:
        df: The rows of one model, framework, scenario and batch.
        left_out: The reason by strategy, of those that do not apply.
        remarks: From the records of the same rows.
    """
    first = df.iloc[0]
    model_name = first["size"]  # a user model's name takes the place of the size
    return Table(
        f"{model_name} in {first['framework']}, {first['scenario']}, batch {first['batch']}",
        make_caption(df),
        make_cells_with_status(df),
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


def choose_columns(df: pd.DataFrame, remarks: Remarks) -> dict[str, TableColumn]:
    """Return the columns that have something to show."""
    columns = {"strategy": SHOWN["strategy"], **PEAKS, **NEEDS}
    columns["cold_peak_bytes"] = SHOWN["cold_peak_bytes"]
    if remarks.untracked:
        columns |= UNTRACKED
    if has_libraries(df):
        columns |= LIBRARIES
    if df["activation_bytes"].any():
        columns |= SAVED
    if df["step_time_s"].any():
        for name in TIMES:
            columns[name] = SHOWN[name]
    columns["worst_error"] = SHOWN["worst_error"]
    columns["effect_proven"] = SHOWN["effect_proven"]
    return columns | INSTRUMENT


def list_notes(df: pd.DataFrame, left_out: dict[str, str], remarks: Remarks) -> Iterator[str]:
    """Yield the notes below the table."""
    if remarks.untracked:
        yield describe_untracked(remarks.untracked)
    if has_libraries(df):
        yield LIBRARIES_NOTE
    if remarks.deterministic:
        yield describe_deterministic(remarks.deterministic)
    for row in df[df["status"] != "ok"].itertuples():
        yield f"{row.strategy}: {row.status}: {row.reason}"
    for reason, names in group_by_reason(left_out).items():
        yield f"left out: {', '.join(names)}: {reason}"


def make_cells_with_status(df: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with their columns; one without numbers shows its status as its peak."""
    peaks = df["peak_bytes"].astype(object).where(df["status"] == "ok", df["status"])
    return make_cells(df).assign(peak_bytes=peaks)


def add_needs(df: pd.DataFrame, remarks: Remarks) -> pd.DataFrame:
    """Return the cases with columns of what libraries keep (0 where nothing counts it), and of what
    each case needs.
    """
    with_libraries = df.assign(library_bytes=df["strategy"].map(remarks.libraries).fillna(0))
    needs = [find_needs(row) for row in with_libraries.to_dict("records")]
    return with_libraries.assign(needs_bytes=pd.Series(needs, df.index, dtype="float64"))


def has_libraries(df: pd.DataFrame) -> bool:
    """Return whether libraries keep enough in any case to be shown."""
    return bool((df["library_bytes"] >= SHOWN_FROM).any())


def make_first_table(df: pd.DataFrame, remarks: Remarks) -> Table:
    """Return the table of memory and verification, while there are no times yet."""
    table = make_table(df, {}, remarks)
    shown = {name: column for name, column in table.shown.items() if name not in TIMES}
    return replace(table, shown=shown, caption="Verified in a first look.")


def describe_deterministic(strategies: list[str]) -> str:
    """Return which strategies were verified without what they draw at random."""
    note = (
        "the model draws random numbers, as dropout does, and they stay on while memory and "
        "time are measured; "
    )
    if {*strategies} & {*BASELINES.values()}:
        return note + (
            "every strategy was verified without them, since Jittor's kernels draw as "
            "they are fused"
        )
    names = ", ".join(strategies)
    return f"{note}{names}: draw in another order than the baseline, and were verified without them"


def describe_untracked(untracked: dict[str, int]) -> str:
    """Return what holds memory next to the model, largest first."""
    holders = sorted(untracked.items(), key=lambda holder: -holder[1])
    named = ", ".join(f"{name} ({format_mib(size)} MiB)" for name, size in holders[:NAMED])
    others = holders[NAMED:]
    if others:
        size = sum(size for _, size in others)
        named += f" and {len(others)} more ({format_mib(size)} MiB)"
    return f"held elsewhere, and part of every peak: {named}"


LIBRARIES_NOTE = (
    "libraries: what MKL, oneDNN and their like keep for their next calls, once the first step is "
    "made: room to pack "
    "matrices, generated code, reordered weights. It differs from processor to processor, grows "
    "with the number of "
    "different products and hardly with the batch, and is not there on a GPU. So it is in no peak "
    "and in no ratio of peaks, but in what a process needs."
)


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


def describe_verdicts(records: list[Record]) -> str:
    """Return how many strategies compute what the baseline does, and how many were seen at work.

    Narrow tables drop the columns that say so.
    """
    newest = {record.case: record for record in records}
    verified = [record for record in newest.values() if record.verification]
    right = []
    wrong = []
    for record in verified:
        if record.verification is not None and record.verification.passed:
            right.append(record)
        else:
            wrong.append(record)
    proven = [record for record in right if record.effect and record.effect.proven]
    sentence = (
        f"{len(right)} of {len(verified)} strategies compute the same, up to rounding; "
        f"{len(proven)} of them were seen at work"
    )
    if wrong:
        sentence += f"; wrong: {', '.join(record.parsed.strategy for record in wrong)}"
    return sentence


def describe_float64_checks(records: list[Record]) -> list[str]:
    """Return how many strategies had their mathematics checked in float64, and why others had not.

    There is a line for each reason.
    """
    newest = {record.case: record for record in records}
    computed = 0
    names_by_reason: dict[str, list[str]] = defaultdict(list)
    for record in newest.values():
        outcome = record.verification.mathematics if record.verification else None
        if outcome is None:
            continue
        if outcome.computed:
            computed += 1
        else:
            names_by_reason[outcome.reason or "no reason is given"].append(record.parsed.strategy)
    total = computed + sum(map(len, names_by_reason.values()))
    if not total:
        return []
    lines = [f"{computed} of {total} strategies were checked in float64"]
    for reason, names in names_by_reason.items():
        lines.append(f"not checked in float64: {', '.join(names)}: {reason}")
    return lines


def list_unproven(records: list[Record]) -> list[str]:
    """Return why the effect of strategies is not proven, a sentence for each."""
    effects = {}
    for record in records:
        if record.effect and not record.effect.proven:
            effects[record.parsed.strategy] = record.effect
    lines = []
    for name, effect in effects.items():
        reason = explain_effect(effect)
        if reason:
            lines.append(f"{name}: effect not proven: {reason}")
    return lines


def explain_effect(effect: StrategyEffect) -> str:
    """Return why an effect is not proven; empty where an older record has no reason.

    What users often meet is explained in words, the rest by the expectations that failed.
    """
    for explain in (explain_compilation, explain_precision, explain_widening):
        reason = explain(effect.evidence)
        if reason:
            return reason
    return effect.reason or ""


def explain_compilation(evidence: dict[str, Any]) -> str:
    """Return what an observed step tells of a strategy that compiles and was not seen at work.

    It is empty for other strategies.
    """
    if "graph_breaks" not in evidence:
        return ""
    if not evidence.get("graphs_forward"):
        return "0 graphs were compiled: every frame fell back"
    breaks = evidence["graph_breaks"]
    if breaks:
        first = next(iter(breaks))
        return f"{len(breaks)} graph breaks: {first[:150]}"
    outside = evidence.get("products_outside_graphs", 0)
    return f"{outside} products were computed outside of the graphs"


def explain_precision(evidence: dict[str, Any]) -> str:
    """Return how many matmuls of an observed step a lower precision did not reach.

    It is empty if it reached all or none of them, or if they are not counted.
    """
    products: Any = evidence.get("products")
    if not isinstance(products, dict):
        return ""
    if "float32" not in products or products.keys() <= {"float32"}:
        return ""
    in_full = f"{products['float32']} of {sum(products.values())} products"
    return (
        f"{in_full} are still computed in float32, as those of PyTorch's attention with "
        "dropout are on a CPU"
    )


def explain_widening(evidence: dict[str, Any]) -> str:
    """Return that XLA computes in float32 most of what was asked for in 16 bits; empty if it does
    not.
    """
    requested: dict[str, int] = evidence.get("operands") or {}
    compiled: dict[str, int] = evidence.get("compiled_operands") or {}
    narrow = requested.get("bfloat16", 0) + requested.get("float16", 0)
    in_float32 = compiled.get("float32", 0)
    total = sum(compiled.values())
    if not narrow or 2 * in_float32 <= total:
        return ""
    return (
        f"{narrow} of {sum(requested.values())} operands of products were asked for in 16 bits, "
        "and "
        f"XLA computes {in_float32} of {total} in float32 on this device"
    )


def group_by_reason(left_out: dict[str, str]) -> dict[str, list[str]]:
    """Return the strategies that do not apply by reason; what needs a GPU has one in common."""
    names_by_reason: dict[str, list[str]] = defaultdict(list)
    for name, reason in left_out.items():
        if reason.startswith("needs a GPU"):
            reason = "they need a GPU"
        names_by_reason[reason].append(name)
    return names_by_reason


def rename_for_figures(df: pd.DataFrame) -> pd.DataFrame:
    """Return the rows as figures take them.

    The model has the name of its file, and peaks are by the framework's own counter, as in the
    table.
    """
    return df.assign(workload=df["size"], relative_peak=df["peak_ratio"])


def describe_fitting(df: pd.DataFrame, budget: int) -> str:
    """Return which strategies need no more than a budget in bytes, and the fastest of them."""
    has_needs = df["usable"] & df["needs_bytes"].notna()
    rows: list[TableRow] = df.assign(decided=find_decided(df))[has_needs].to_dict("records")
    fitting = [row for row in rows if row["needs_bytes"] <= budget]
    if not fitting:
        return f"Nothing fits within {format_mib(budget)} MiB."
    return (
        f"{len(fitting)} of {len(rows)} strategies fit within {format_mib(budget)} MiB; "
        f"{describe_fastest(fitting)}."
    )


def describe_fastest(fitting: list[TableRow]) -> str:
    """Return which of these rows is the fastest, or which needs least where none was timed.

    A time counts if its ratio is decided, and the baseline's where others have a ratio to it.
    """
    timed = []
    for row in fitting:
        if row["decided"] or (row["baseline"] and not is_missing(row["time_ratio"])):
            timed.append(row)
    if not timed:
        least = min(fitting, key=lambda row: float(row["needs_bytes"]))
        claim = "without times the one that needs least is"
        return f"{claim} {least['strategy']} ({format_needs(least['needs_bytes'])} MiB)"
    fastest = min(timed, key=lambda row: float(row["time_ratio"]))
    claim = "the fastest of them is"
    if len(timed) < len(fitting):
        claim = "the fastest of those whose time is decided is"
    step = f"{format_number(fastest['step_time_s'], ',.1f', 1e3)} ms a step"
    return f"{claim} {fastest['strategy']} ({format_needs(fastest['needs_bytes'])} MiB, {step})"


def describe_least(df: pd.DataFrame) -> list[str]:
    """Return which strategy needs least, of those that came out right and were seen at work.

    There is no sentence where only one did, or the baseline has no number.
    """
    usable: list[TableRow] = df[df["usable"] & df["needs_bytes"].notna()].to_dict("records")
    baselines = [row for row in usable if row["baseline"]]
    if len(usable) < 2 or not baselines:
        return []
    least = min(usable, key=lambda row: float(row["needs_bytes"]))
    base_name = BASELINES[least["scenario"]]
    share = least["needs_bytes"] / baselines[0]["needs_bytes"]
    if share >= 1:
        return [f"No strategy needs less than {base_name}."]
    needs = format_needs(least["needs_bytes"])
    return [f"{least['strategy']} needs least: {needs} MiB, {share:.0%} of what {base_name} needs."]


def find_needs(row: TableRow) -> float | None:
    """Return the bytes that a budget must have for a row's strategy; None if it has no peak.

    The first step's peak counts, since without it there is no second; it has in it what libraries
    take meanwhile. In later steps they still have it, next to the peak. Of the framework's own
    counter and `host.rss` the larger counts: a limit holds what the kernel counts, and in a small
    model that may miss what went into holes between blocks.
    """
    if is_missing(row["peak_bytes"]):
        return None
    steady = row["peak_bytes"]
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
        [(fit.case.split("/")[3], str(fit.largest or "-"), fit.answer) for fit in fits],
        left=1,
    )
