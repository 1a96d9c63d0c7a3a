"""Comparison tables: one per workload, scenario and batch; one factor varies, the rest stands in the caption.

Each starts from the table that `framebench.analysis.frames.frame` makes, of one version of each framework.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from textwrap import shorten
from typing import Any

import pandas as pd

from framebench.analysis.comparison import MIB, Comparison, Shown, missing, number
from framebench.analysis.frames import ratios
from framebench.analysis.statistics import CONFIDENCE, FEW, WIDE
from framebench.models import spec
from framebench.suite.registry import BASELINES, find
from framebench.suite.strategy import FRAMEWORKS

PLACE = ["workload", "size", "batch"]
IN_BLOCKS = (
    "Times are of live blocks: fresh processes that are alive at once on one core and take turns, so that a machine that "
    "drifts changes all of them alike. step ms = median over blocks, with the range over blocks; step x base = ratio within a "
    f"round, median over a block's rounds, then mean over blocks with its {CONFIDENCE:.0%} interval (moderated t); an interval "
    f"wider than {WIDE:.0%} either way is undecided; ~ = of fewer than {FEW} blocks, without an interval"
)
WITHOUT = "without times (framebench run --rounds 0)"


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


SHOWN = {
    "framework": Shown("framework"),
    "strategy": Shown("strategy"),
    "peak_bytes": Shown("peak MiB", ",.1f", 1 / MIB),
    "peak_ratio": Shown("peak x base", ".2f"),
    "cold_peak_bytes": Shown("cold MiB", ",.1f", 1 / MIB),
    "step_time_s": Shown("step ms", ",.1f", 1e3),
    "range": Shown("range"),
    "relative": Shown("step x base"),
    "blocks": Shown("blocks", ".0f"),
    "throughput": Shown("throughput"),
    "reference_share": Shown("of reference", ".0%"),
    "first_step_s": Shown("first s", ".1f"),
    "worst_error": Shown("verified", ".0e"),
    "effect_proven": Shown("effect", mark),
    "peak_instrument": Shown("instrument"),
}
SHARES = {"wait_share": Shown("waiting", ".1%"), "collector_share": Shown("collector", ".1%")}


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
    shown_rows["peak_bytes"] = shown_rows["peak_bytes"].where(fine, df["status"])
    return shown_rows


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
    the quick profile, also a table of these alone."""
    for title, group in _titled(df):
        yield _of_strategies(title, group)
        quick = [find(*place).quick and "+" not in place[1] for place in zip(group["scenario"], group["strategy"])]
        short = group[quick]
        if short["baseline"].any() and len(short) < len(group):
            yield _of_strategies(f"{title}, in short", short)


def _titled(df: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows that one table compares, and its title."""
    for (_, workload, size, scenario, batch), group in df.groupby(["machine", "workload", "size", "scenario", "batch"]):
        yield f"{workload} {scenario}, batch {batch}, size {size}", group


def _of_strategies(title: str, group: pd.DataFrame) -> Comparison:
    first = group.iloc[0]
    lost = group[group["status"] != "ok"]
    told = [f"{r.framework} {r.strategy}: {r.status}: {r.reason}" for r in lost.itertuples()]
    return Comparison(
        title,
        f"base = {BASELINES[first['scenario']]} of the same framework; MiB = 2^20 bytes; compare peaks only under one "
        f"instrument. peak = the most that a steady step has in use, cold = that of the first step, with compilation. "
        f"of reference = the rate of the model's operations over that of a float32 product by NumPy on the same core. "
        f"verified = largest relative error against float64. {repeats(group)} {conditions(group)}",
        cells(group),
        SHOWN | {name: column for name, column in SHARES.items() if (group[name] > 0.01).any()},
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
            f"Frameworks side by side, {scenario} ({BASELINES[str(scenario)]})",
            f"peak by host.rss in MiB (2^20 bytes), step time in ms, and times PyTorch's step in the blocks that both were in. "
            f"{repeats(group)} {conditions(group)}",
            wide[present].set_axis(list(columns), axis=1).reset_index(),
            places | columns,
            machine=str(machine),
        )


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
        f"{precisions(df)} Protocol {protocols}. {timing(df)} Another process reads the memory. "
        f"Measured by {', '.join(typed) if len(typed) <= 3 else f'{len(typed)} commands, which the records name'}."
    )


def timing(df: pd.DataFrame) -> str:
    """How the times of these rows were measured."""
    fine = df[df["status"] == "ok"]
    timed = df[df["step_time_s"].notna()]
    without = int(fine["step_time_s"].isna().sum())
    left = f" {without} of {len(fine)} rows were measured {WITHOUT}." if without else ""
    if timed.empty:
        return left.strip()
    return f"{IN_BLOCKS}.{left}"


@cache
def _typed_in_short(command: str) -> str:
    return shorten(command.replace("__main__.py ", "framebench ", 1), 100, placeholder=" ...")


def precisions(df: pd.DataFrame) -> str:
    """The precision of the rows' baseline, and the strategies that have another."""
    scenario = str(df["scenario"].iloc[0])
    default = find(scenario, BASELINES[scenario]).precision
    strategy_precisions = sorted((find(scenario, name).precision, name) for name in df["strategy"].unique())
    others = [f"{strategy} {precision}" for precision, strategy in strategy_precisions if precision != default]
    return f"Precision {default}; {', '.join(others)}." if others else f"Precision {default}."
