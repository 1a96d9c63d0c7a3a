"""What `framebench try` found out about a model of the user's own: one table, and what fits a budget."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from framebench.analysis.comparison import DETAIL, ESSENTIAL, Comparison, Shown, mib, missing, number
from framebench.analysis.frames import decided
from framebench.analysis.peaks import MARGIN
from framebench.analysis.tables import SHOWN, conditions, make_cells, timing
from framebench.records.record import Record
from framebench.records.search import Fit
from framebench.strategies.registry import BASELINES
from framebench.suite.result import StrategyEffect

# by the framework's own counter, which sees what a model of a few MiB changes; host.rss does not
PEAKS = {
    "peak_bytes": Shown("peak MiB", ",.1f", 1 / 2**20, priority=ESSENTIAL),
    "peak_ratio": Shown("peak x base", ".2f", priority=ESSENTIAL),
}
SAVED = {"activation_bytes": Shown("saved MiB", ",.1f", 1 / 2**20)}
MEANING = "; saved = what the forward pass keeps for the backward pass"
GRAPH = "; Jittor's graph of the step, which holds no tensors, is part of both"
ELSEWHERE = {"elsewhere_bytes": Shown("held elsewhere MiB", ",.1f", 1 / 2**20, priority=DETAIL)}
LIBRARIES = {"library_bytes": Shown("libraries MiB", ",.1f", 1 / 2**20, priority=DETAIL)}
SHOWN_FROM = 2**20 / 20  # bytes: what is less is 0.0 MiB in a table
TIMES = ("step_time_s", "range", "relative", "first_step_s")
NAMED = 5  # holders in a note
INSTRUMENT = {"peak_instrument": Shown("instrument", priority=DETAIL)}


@dataclass(frozen=True)
class Beside:
    """What records tell beside their rows. `elsewhere`: what the baseline holds beside its tensors, by holder. `libraries`: by
    strategy what libraries keep for their next calls. `still`: the strategies that were verified without random numbers."""

    elsewhere: dict[str, int]
    libraries: dict[str, int]
    still: Sequence[str]


def beside(records: list[Record]) -> Beside:
    base = next((r.elsewhere for r in reversed(records) if r.elsewhere and r.parsed.strategy in BASELINES.values()), {})
    shown = {holder: size for holder, size in base.items() if size >= SHOWN_FROM}
    libraries = {r.parsed.strategy: r.library_bytes for r in records if r.library_bytes is not None}
    still = [*dict.fromkeys(r.parsed.strategy for r in records if r.verification and r.verification.still)]
    return Beside(shown, libraries, still)


def table(df: pd.DataFrame, left_out: dict[str, str], told: Beside) -> Comparison:
    """`df`: the cases of one model. Those without numbers have their reason in the notes, with what does not apply."""
    first = df.iloc[0]
    saved, meaning = (SAVED, MEANING) if df["activation_bytes"].any() else ({}, "")
    graph = GRAPH if first["framework"] == "jittor" else ""
    lost = [f"{r.strategy}: {r.status}: {r.reason}" for r in df[df["status"] != "ok"].itertuples()]
    return Comparison(
        f"{first['size']} in {first['framework']}, {first['scenario']}, batch {first['batch']}",
        f"base = {BASELINES[first['scenario']]}; MiB = 2^20 bytes; peak = the most that a steady step has in use, cold = "
        f"that of the first step, with compilation{graph}{meaning}. verified = largest relative error of the losses and the "
        f"gradient's norm against your float32 baseline; every tensor was compared too. effect = whether the strategy was seen "
        f"to be on. "
        f"{timing(df)} "
        f"{conditions(df)}",
        _cells(df),
        {"strategy": SHOWN["strategy"]}
        | PEAKS
        | {"cold_peak_bytes": SHOWN["cold_peak_bytes"]}
        | (ELSEWHERE if told.elsewhere else {})
        | (LIBRARIES if (df["library_bytes"] >= SHOWN_FROM).any() else {})
        | saved
        | {name: SHOWN[name] for name in TIMES if df["step_time_s"].any()}
        | {name: SHOWN[name] for name in ("worst_error", "effect_proven")}
        | INSTRUMENT,
        left=1,
        notes=(
            *holders(told.elsewhere),
            *kept_by_libraries(df),
            *stilled(told.still),
            *lost,
            *(f"left out: {', '.join(names)}: {why}" for why, names in by_reason(left_out).items()),
        ),
        machine=first["machine"],
        cases=tuple(df["case"]),
    )


def _cells(df: pd.DataFrame) -> pd.DataFrame:
    """What has no numbers shows its status in the place of its peak."""
    return make_cells(df).assign(peak_bytes=df["peak_bytes"].astype(object).where(df["status"] == "ok", df["status"]))


def with_libraries(df: pd.DataFrame, told: Beside) -> pd.DataFrame:
    """Return the cases with a column of what libraries keep; 0 where nothing counts it."""
    return df.assign(library_bytes=df["strategy"].map(told.libraries).fillna(0))


def first(df: pd.DataFrame, told: Beside) -> Comparison:
    """Of memory and verification, while there are no times yet."""
    whole = table(df, {}, told)
    shown = {name: column for name, column in whole.shown.items() if name not in TIMES}
    return replace(whole, shown=shown, caption="Verified in a first look.")


def stilled(strategies: Sequence[str]) -> list[str]:
    """Which strategies were verified without what they draw at random."""
    if not strategies:
        return []
    drawn = "the model draws random numbers, as dropout does, and they stay on while memory and time are measured; "
    if {*strategies} & {*BASELINES.values()}:
        return [drawn + "every strategy was verified without them, since Jittor's kernels draw as they are fused"]
    return [drawn + f"{', '.join(strategies)}: draw in another order than the baseline, and were verified without them"]


def holders(elsewhere: dict[str, int]) -> list[str]:
    """What holds memory beside the model, largest first."""
    if not elsewhere:
        return []
    each = sorted(elsewhere.items(), key=lambda pair: -pair[1])
    named = ", ".join(f"{name} ({mib(size)} MiB)" for name, size in each[:NAMED])
    more = f" and {len(each) - NAMED} more ({mib(sum(size for _, size in each[NAMED:]))} MiB)" if len(each) > NAMED else ""
    return [f"held elsewhere, and part of every peak: {named}{more}"]


def kept_by_libraries(df: pd.DataFrame) -> list[str]:
    """Return a note on what the column `libraries` is, where it has something to show."""
    if not (df["library_bytes"] >= SHOWN_FROM).any():
        return []
    return [
        "libraries: what MKL, oneDNN and their like keep for their next calls, once the first step is made: room to pack "
        "matrices, generated code, reordered weights. It differs from processor to processor, grows with the number of "
        "different products and hardly with the batch, and is not there on a GPU. So it is in no peak and in no ratio, but a "
        "process must have room for it beside the peak."
    ]


def contradiction(df: pd.DataFrame) -> str | None:
    """Of two columns, where a forward pass saves more than the step ever had."""
    worse = df[df["peak_bytes"] < df["activation_bytes"]]
    if worse.empty:
        return None
    row = worse.iloc[0]
    return (
        f"{row['strategy']}: a forward pass saves {mib(row['activation_bytes'])} MiB, and the peak was read as only "
        f"{mib(row['peak_bytes'])} MiB: one of the two is misread, so nothing is reported; the records are kept"
    )


def verdicts(records: list[Record]) -> str:
    """How many strategies compute what the baseline does, and how many were seen at work; narrow tables drop these columns."""
    newest = {record.case: record for record in records}
    judged = [r for r in newest.values() if r.verification]
    right = [r for r in judged if r.verification and r.verification.passed]
    proven = [r for r in right if r.effect and r.effect.proven]
    wrong = ", ".join(r.parsed.strategy for r in judged if r not in right)
    return (
        f"{len(right)} of {len(judged)} strategies compute the same, up to rounding; {len(proven)} of them were seen at work"
        f"{f'; wrong: {wrong}' if wrong else ''}"
    )


def checked_in_float64(records: list[Record]) -> list[str]:
    """Say how many strategies had their mathematics checked in float64, and why others had not, a line for each reason."""
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


def unproven(records: list[Record]) -> list[str]:
    """Say why the effect of strategies is not proven, each in a sentence."""
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
    """Say why an effect is not proven: in words for what users often meet, else by the expectations that failed.

    Empty where an older record has no reason.
    """
    for explain in (not_compiled, other_products, widened):
        reason = explain(effect.evidence)
        if reason:
            return reason
    return effect.reason or ""


def not_compiled(evidence: dict[str, Any]) -> str:
    """What an observed step tells of a strategy that compiles, where it was not seen at work; empty if nothing."""
    if "graph_breaks" not in evidence:
        return ""
    if not evidence.get("graphs_forward"):
        return "0 graphs were compiled: every frame fell back"
    if breaks := evidence["graph_breaks"]:
        return f"{len(breaks)} graph breaks: {next(iter(breaks))[:150]}"
    return f"{evidence.get('products_outside_graphs', 0)} products were computed outside of the graphs"


def other_products(evidence: dict[str, Any]) -> str:
    """How many products of an observed step a lower precision did not reach; empty if none, or if they are not counted."""
    products: Any = evidence.get("products")
    if not isinstance(products, dict) or products.keys() <= {"float32"} or "float32" not in products:
        return ""
    full, every = products["float32"], sum(products.values())
    return (
        f"{full} of {every} products are still computed in float32, as those of PyTorch's attention with dropout are on a CPU"
    )


def widened(evidence: dict[str, Any]) -> str:
    """What XLA made of products that were asked for in 16 bits, where it computes most of them in float32; else empty."""
    asked: Any = evidence.get("operands") or {}
    made: Any = evidence.get("compiled_operands") or {}
    narrow = asked.get("bfloat16", 0) + asked.get("float16", 0)
    if not narrow or 2 * made.get("float32", 0) <= sum(made.values()):
        return ""
    return (
        f"{narrow} of {sum(asked.values())} operands of products were asked for in 16 bits, and XLA computes "
        f"{made['float32']} of {sum(made.values())} in float32 on this device"
    )


def by_reason(left_out: dict[str, str]) -> dict[str, list[str]]:
    """The strategies that do not apply. What needs a GPU needs it for one reason."""
    names_by_reason: dict[str, list[str]] = {}
    for name, why in left_out.items():
        names_by_reason.setdefault("they need a GPU" if why.startswith("needs a GPU") else why, []).append(name)
    return names_by_reason


def named(df: pd.DataFrame) -> pd.DataFrame:
    """For figures: the model by the name of its file, and peaks by the framework's own counter, as in the table."""
    return df.assign(workload=df["size"], relative_peak=df["peak_ratio"])


def within(df: pd.DataFrame, room: int) -> str:
    """Which strategies fit a budget, by the peak and what a limit must have over it, and the fastest of them."""
    usable = df.assign(decided=decided(df))[df["usable"] & df["peak_bytes"].notna()]
    fine: list[dict[Any, Any]] = usable.to_dict("records")
    fits = [row for row in fine if needs(row) <= room]
    if not fits:
        least = min(fine, key=needs, default=None)
        told = f"; {least['strategy']} needs least, {mib(needs(least))} MiB" if least else ""
        return f"Nothing fits within {mib(room)} MiB{told}."
    timed = [row for row in fits if row["decided"] or (row["baseline"] and not missing(row["time_ratio"]))]
    first = min(timed or fits, key=lambda row: row["time_ratio" if timed else "peak_bytes"])
    fastest = "the fastest of them is" if len(timed) == len(fits) else "the fastest of those whose time is decided is"
    how = fastest if timed else "without times the one that needs least is"
    speed = f", {number(first['step_time_s'], ',.1f', 1e3)} ms a step" if timed else ""
    return (
        f"{len(fits)} of {len(fine)} strategies fit within {mib(room)} MiB, with {MARGIN - 1:.0%} to spare over the peak of "
        f"every step, the first too; {how} {first['strategy']} ({mib(first['peak_bytes'])} MiB{speed})."
    )


def lowest(df: pd.DataFrame) -> list[str]:
    """Which strategy has the lowest peak, of those that came out right and were seen at work."""
    usable: list[dict[Any, Any]] = df[df["usable"] & df["peak_ratio"].notna()].to_dict("records")
    if len(usable) < 2:
        return []
    row = min(usable, key=lambda row: float(row["peak_bytes"]))
    base = BASELINES[row["scenario"]]
    if row["peak_ratio"] >= 1:
        return [f"No strategy has a lower peak than {base}."]
    peak = f"{mib(row['peak_bytes'])} MiB, {row['peak_ratio']:.0%} of {base}'s"
    return [f"{row['strategy']} has the lowest peak of a steady step: {peak}."]


def needs(row: dict[Any, Any]) -> float:
    """Return the bytes that a budget must have.

    The first step's peak counts, since without it there is no second; it has in it what libraries take meanwhile. In later
    steps they still have it, beside the peak.
    """
    steady = row["peak_bytes"] + row.get("library_bytes", 0)
    cold = row["cold_peak_bytes"]
    if missing(cold):
        return float(steady * MARGIN)
    return float(max(steady, cold) * MARGIN)


def batches(fits: list[Fit]) -> Comparison:
    """The largest batch that each strategy was seen to fit at."""
    rows = [(fit.case.split("/")[3], str(fit.largest or "-"), fit.answer) for fit in fits]
    title = f"The largest batch within {mib(fits[0].budget_bytes)} MiB"
    caption = "Tried under an enforced limit, each batch in a fresh process; the loss was only seen to be finite."
    return Comparison.of_text(title, caption, ("strategy", "batch", "what was found"), rows, left=1)
