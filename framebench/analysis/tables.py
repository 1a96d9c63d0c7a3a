"""Comparison tables: one per workload, scenario and batch; one factor varies, the rest stands in the caption.

Each starts from the table that `framebench.analysis.frames.frame` makes, of one version of each framework.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from textwrap import shorten
from typing import Any

import pandas as pd

from framebench.analysis.comparison import DETAIL, ESSENTIAL, MIB, Comparison, Shown, missing, number
from framebench.analysis.frames import ratios
from framebench.models import spec
from framebench.suite.registry import baseline_of, look_up
from framebench.suite.strategy import FRAMEWORKS

PLACE = ["workload", "size", "batch"]
READING = "How to read it: docs/reading.md."
WITHOUT = "without times (`--rounds 0`)"


def mark(value: Any) -> str:
    return "yes" if value else "NO"


def interval(low: float | None, high: float | None) -> str:
    """Two ends in seconds as milliseconds."""
    return "-" if missing(low) or missing(high) else f"{number(low, ',.1f', 1e3)} to {number(high, ',.1f', 1e3)}"


def relative(df: pd.DataFrame, name: str = "time_ratio") -> list[str]:
    """Of each row the ratio of step times as text (`statistics.Ratio.text`); 1.00 where it is the base itself."""
    return [
        "-" if step_ratio is None else "1.00" if step_ratio.low == step_ratio.high == 1 else step_ratio.text
        for step_ratio in ratios(df, name)
    ]


def in_short(df: pd.DataFrame) -> list[str]:
    """The same without intervals: `1.23`, `undecided`, `~1.23`, or `-`."""
    return [text.partition(" ")[0] for text in relative(df)]


SHORT = {
    "framework": Shown("framework"),
    "strategy": Shown("strategy", priority=ESSENTIAL),
    "shared_bytes": Shown("peak MiB", ",.1f", 1 / MIB, priority=ESSENTIAL),
    "step_ratio": Shown("peak x base", ".2f", priority=ESSENTIAL),
    "relative": Shown("step x base", priority=ESSENTIAL),
    "throughput": Shown("throughput"),
}
DETAILS = {
    "step_time_s": Shown("step ms", ",.1f", 1e3, priority=ESSENTIAL),
    "range": Shown("range", priority=DETAIL),
    "blocks": Shown("blocks", ".0f", priority=DETAIL),
    "reference_share": Shown("of reference", ".0%", priority=DETAIL),
    "first_step_s": Shown("first s", ".1f", priority=DETAIL),
    "worst_error": Shown("verified", ".0e", priority=DETAIL),
    "effect_proven": Shown("effect", mark),
    "peak_bytes": Shown("own counter MiB", ",.1f", 1 / MIB, priority=DETAIL),
    "cold_peak_bytes": Shown("cold MiB", ",.1f", 1 / MIB, priority=DETAIL),
    "peak_instrument": Shown("own counter", priority=DETAIL),
}
SHOWN = SHORT | DETAILS
# on a card the peak is the whole process's, so what a strategy saves of a step is told by the framework's own counter; and a
# product on the host is no reference
ON_CARD = {
    "shared_bytes": Shown("card MiB", ",.1f", 1 / MIB, priority=ESSENTIAL),
    "step_ratio": Shown("in use x base", ".2f", priority=ESSENTIAL),
}
NOT_ON_CARD = ("reference_share",)
SHARES = {"wait_share": Shown("waiting", ".1%", priority=DETAIL), "collector_share": Shown("collector", ".1%", priority=DETAIL)}


def cells(df: pd.DataFrame) -> pd.DataFrame:
    """The rows with the columns of SHOWN and SHARES; what has no numbers shows its status instead of a peak, and its reason
    stands in the notes."""
    shown_rows = df.assign(
        range=[interval(*ends) for ends in zip(df["step_low_s"], df["step_high_s"])],
        relative=relative(df),
        throughput=[
            "-" if missing(value) else f"{number(value, ',.1f')} {unit}/s" for value, unit in zip(df["throughput"], df["unit"])
        ],
    )
    numbers, fine = [*list(SHOWN)[2:], *SHARES], df["status"] == "ok"
    shown_rows[numbers] = shown_rows[numbers].astype(object).where(fine, None)
    shown_rows["shared_bytes"] = shown_rows["shared_bytes"].where(fine, df["status"])
    return shown_rows


def columns(df: pd.DataFrame, shown: dict[str, Shown]) -> dict[str, Shown]:
    """Those of `shown`, as they are where these rows were measured."""
    if not of_card(df):
        return shown
    return {name: ON_CARD.get(name, column) for name, column in shown.items() if name not in NOT_ON_CARD}


def of_card(df: pd.DataFrame) -> bool:
    return bool((df["device"].dropna() != "cpu").any())


def used(df: pd.DataFrame) -> pd.DataFrame:
    """The rows of strategies that people use."""
    return df[~df["only_for_claims"]]


def claim_arms(df: pd.DataFrame) -> Iterator[Comparison]:
    """Framework x strategy for what only tests an article's sentence, with the baselines."""
    for title, group in _titled(df[df["only_for_claims"] | df["baseline"]]):
        if not group["baseline"].all():
            yield _of_strategies(f"{title}, only for claims", group)


def strategies(df: pd.DataFrame) -> Iterator[Comparison]:
    """Framework x strategy, for each machine, workload, size, scenario and batch. Where there are more strategies than those of
    the quick profile, also a table of these alone, without what a framework does not have."""
    for title, group in _titled(df):
        yield _of_strategies(title, group)
        quick = [look_up(*place).quick and "+" not in place[1] for place in zip(group["scenario"], group["strategy"])]
        short = group[(group["status"] != "unsupported") & pd.Series(quick, group.index, dtype=bool)]
        if short["baseline"].any() and len(short) < len(group):
            whole = _of_strategies(f"{title}, in short", short)
            unproven = (short["status"] == "ok") & ~short["usable"]
            marked = short["strategy"].mask(unproven, short["strategy"] + " (not proven)")  # no column says so here
            yield replace(whole, shown=columns(short, SHORT), caption=_briefly(short), data=whole.data.assign(strategy=marked))


def index(df: pd.DataFrame) -> Comparison:
    """What there is to ask for: a row for each workload, scenario and size, with the selector of its tables."""
    found = []
    for (workload, scenario, size), group in used(df).groupby(["workload", "scenario", "size"], sort=False):
        batches = ", ".join(map(str, sorted(group["batch"].unique())))
        counts = str(group["strategy"].nunique()), f"{int(group['usable'].sum())} of {len(group)}"
        found.append((f"{workload}/*/{scenario}/*/*/{size}", batches, *counts))
    caption, head = "`framebench report SELECTOR` prints a table.", ("selector", "batches", "strategies", "with numbers")
    return Comparison.of_text("Tables", caption, head, found, left=2, machine=", ".join(sorted(set(df["machine"]))))


def _titled(df: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows that one table compares, and its title."""
    for (_, workload, size, scenario, batch), group in df.groupby(["machine", "workload", "size", "scenario", "batch"]):
        yield f"{workload} {scenario}, batch {batch}, size {size}", group


def _briefly(group: pd.DataFrame) -> str:
    """The caption of a table that stands among prose."""
    first = group.iloc[0]
    base = f"base: {baseline_of(first['scenario'])} of the same framework."
    return f"{base} {read_by(group)} Machine {first['machine']}, {first['cpu']}.{_uncalibrated(group)} {READING}"


def _uncalibrated(group: pd.DataFrame) -> str:
    """Return a sentence where the instruments that read these rows were not calibrated, or failed; else nothing."""
    states = sorted(set(group["calibration"]) - {"passed"})
    return f" Calibration of the instruments: {', '.join(states)}." if states else ""


def _of_strategies(title: str, group: pd.DataFrame) -> Comparison:
    first = group.iloc[0]
    lost = group[group["status"] != "ok"]
    told = [f"{r.framework} {r.strategy}: {r.status}: {r.reason}" for r in lost.itertuples()]
    return Comparison(
        title,
        f"base: {baseline_of(first['scenario'])} of the same framework. {read_by(group)} {repeats(group)} {conditions(group)}",
        cells(group),
        columns(group, SHOWN) | {name: column for name, column in SHARES.items() if (group[name] > 0.01).any()},
        notes=tuple(dict.fromkeys(told)),
        machine=first["machine"],
        cases=tuple(group["case"]),
    )


def frameworks(df: pd.DataFrame) -> Iterator[Comparison]:
    """The frameworks against each other by `host.rss`, the one instrument they share on a CPU: baselines only."""
    base = df[df["baseline"] & df["host_rss_bytes"].notna()].sort_values("measured_at")
    base = base.assign(relative=relative(base, "torch_ratio"))
    kinds = {
        "host_rss_bytes": ("MiB", ",.1f", 1 / MIB), "step_time_s": ("ms", ",.1f", 1e3), "relative": ("x torch", "", 1.0)
    }  # fmt: skip
    for (machine, scenario), group in base.groupby(["machine", "scenario"]):
        newest = group.drop_duplicates([*PLACE, "framework"], keep="last")
        wide = newest.pivot(index=PLACE, columns="framework", values=list(kinds))
        present = [(kind, f) for kind in kinds for f in FRAMEWORKS if (kind, f) in wide and (kind, f) != ("relative", "torch")]
        columns = {f"{kind} {f}": Shown(f"{f} {kinds[kind][0]}", *kinds[kind][1:]) for kind, f in present}
        places = {name: Shown(name) for name in PLACE}
        yield Comparison(
            f"Frameworks side by side, {scenario} ({baseline_of(str(scenario))})",
            f"MiB: peak by host.rss. x torch: step time over PyTorch's. {repeats(group)} {conditions(group)}",
            wide[present].set_axis(list(columns), axis=1).reset_index(),
            places | columns,
            machine=str(machine),
        )


def read_by(df: pd.DataFrame) -> str:
    """A sentence about the instruments of the peaks that are compared: one on one kind of device."""
    shared = by(df, "shared_instrument")
    if not of_card(df):
        return f"Peaks by {shared}."
    return f"MiB on the card by {shared}, with the context and the framework's pool; in use by {by(df, 'step_instrument')}."


def by(df: pd.DataFrame, column: str) -> str:
    """The instruments that a column names."""
    return ", ".join(sorted(df[column].dropna().unique())) or "no instrument"


def conditions(df: pd.DataFrame) -> str:
    """What was held constant, and where it was measured."""
    if df.empty:
        return "Nothing was measured."

    def one(column: str) -> str:
        return ", ".join(sorted(df[column].dropna().astype(str).unique())) or "unknown"

    named = df[["framework", "framework_version"]].dropna().drop_duplicates().itertuples(index=False)
    versions = sorted(f"{framework} {version}" for framework, version in named)
    days = [f"{day:%Y-%m-%d}" for day in (df["measured_at"].min(), df["measured_at"].max())]
    commits = sorted(df["commit"].fillna("unknown").str[:10].unique())
    return (
        f"Machine {one('machine')} ({one('cpu')}, device {one('device')}), threads {one('threads')}, core {one('core')}; "
        f"calibration {one('calibration')}; {', '.join(versions)}; measured {' to '.join(dict.fromkeys(days))} at "
        f"{', '.join(commits)}.{''.join(map(_unconfirmed, sorted(df['workload'].unique())))}"
    )


def _unconfirmed(workload: str) -> str:
    """A sentence about reference values of one framework alone."""
    if workload not in spec.names():  # a user's model, by its own name
        return ""
    whose = spec.workload(workload).unconfirmed
    return f" References of {workload}: {whose}." if whose else ""


def repeats(df: pd.DataFrame) -> str:
    """How the rows were measured: precision, blocks, and the commands that did it."""
    protocols = ", ".join(sorted(map(str, df["protocol"].unique())))
    typed = sorted({_typed_in_short(command) for command in df["command"].unique()})
    return (
        f"{precisions(df)} Protocol {protocols}. {timing(df)} "
        f"Measured by {', '.join(typed) if len(typed) <= 3 else f'{len(typed)} commands, which the records name'}."
    )


def timing(df: pd.DataFrame) -> str:
    """Where it says how rows are measured, and how many have no times."""
    fine = df[df["status"] == "ok"]
    without = int(fine["step_time_s"].isna().sum())
    return f"{READING} {without} of {len(fine)} rows were measured {WITHOUT}." if without else READING


@cache
def _typed_in_short(command: str) -> str:
    return shorten(command.replace("__main__.py ", "framebench ", 1), 100, placeholder=" ...")


def precisions(df: pd.DataFrame) -> str:
    """The precision of the rows' baseline, and the strategies that have another."""
    scenario = str(df["scenario"].iloc[0])
    default = look_up(scenario, baseline_of(scenario)).precision
    strategy_precisions = sorted((look_up(scenario, name).precision, name) for name in df["strategy"].unique())
    others = [f"{strategy} {precision}" for precision, strategy in strategy_precisions if precision != default]
    return f"Precision {default}; {', '.join(others)}." if others else f"Precision {default}."
