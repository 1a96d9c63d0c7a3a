"""Comparison tables: one per workload, scenario and batch; one factor varies, the rest stands in the caption.

Each starts from the table that `analysis.frames.frame` makes, of one version of each framework.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from textwrap import shorten
from typing import Any

import pandas as pd

from analysis.comparison import GIB, Comparison, Shown, missing, number
from analysis.statistics import BETWEEN_PROCESSES
from framebench.suite.protocol import Task
from framebench.suite.registry import BASELINES, find
from framebench.suite.strategy import FRAMEWORKS

PLACE = ["workload", "size", "batch"]
APART = "time ratios only where a case and its baseline were measured within an hour, since a shared processor drifts"


def mark(value: Any) -> str:
    return "yes" if value else "NO"


def steps(value: float) -> str:
    """Steps after which a longer first step has paid."""
    return "-" if missing(value) else "never" if math.isinf(value) else f"{value:,.0f}"


def interval(low: float | None, high: float | None) -> str:
    """Two ends in seconds as milliseconds."""
    return "-" if missing(low) or missing(high) else f"{number(low, ',.1f', 1e3)} to {number(high, ',.1f', 1e3)}"


SHOWN = {
    "framework": Shown("framework"),
    "strategy": Shown("strategy"),
    "peak_bytes": Shown("peak GiB", ".3f", 1 / GIB),
    "peak_ratio": Shown("x base", ".2f"),
    "step_time_s": Shown("step ms", ",.1f", 1e3),
    "interval": Shown("95 % interval"),
    "time_ratio": Shown("x base", ".2f"),
    "throughput": Shown("throughput"),
    "first_step_s": Shown("first s", ".1f"),
    "break_even_steps": Shown("break-even", steps),
    "samples": Shown("n", ".0f"),
    "worst_error": Shown("verified", ".0e"),
    "effect_proven": Shown("effect", mark),
    "peak_instrument": Shown("instrument"),
}
SHARES = {"wait_share": Shown("waiting", ".1%"), "collector_share": Shown("collector", ".1%")}


def cells(df: pd.DataFrame) -> pd.DataFrame:
    """The rows with the columns of SHOWN and SHARES; what has no numbers shows its status instead of a peak, and its reason
    stands in the notes."""
    found = df.assign(
        interval=[interval(*ends) for ends in zip(df["step_low_s"], df["step_high_s"])],
        throughput=[f"{number(value, ',.1f')} {unit}/s" for value, unit in zip(df["throughput"], df["unit"])],
    )
    numbers, fine = [*list(SHOWN)[2:], *SHARES], df["status"] == "ok"
    found[numbers] = found[numbers].astype(object).where(fine, None)
    found["peak_bytes"] = found["peak_bytes"].where(fine, df["status"])
    return found


def used(df: pd.DataFrame) -> pd.DataFrame:
    """The rows of strategies that people use."""
    return df[~df["only_for_claims"]]


def claim_arms(df: pd.DataFrame) -> Iterator[Comparison]:
    """Framework x strategy for what only tests an article's sentence, with the baselines."""
    for title, group in titled(df[df["only_for_claims"] | df["baseline"]]):
        if not group["baseline"].all():
            yield of_strategies(f"{title}, only for claims", group)


def strategies(df: pd.DataFrame) -> Iterator[Comparison]:
    """Framework x strategy, for each machine, workload, size, scenario and batch. Where there are more strategies than those of
    the quick profile, also a table of these alone."""
    for title, group in titled(df):
        yield of_strategies(title, group)
        quick = [find(*place).quick and "+" not in place[1] for place in zip(group["scenario"], group["strategy"])]
        short = group[quick]
        if short["baseline"].any() and len(short) < len(group):
            yield of_strategies(f"{title}, in short", short)


def titled(df: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows that one table compares, and its title."""
    for (_, workload, size, scenario, batch), group in df.groupby(["machine", "workload", "size", "scenario", "batch"]):
        yield f"{workload} {scenario}, batch {batch}, size {size}", group


def of_strategies(title: str, group: pd.DataFrame) -> Comparison:
    first = group.iloc[0]
    lost, late = group[group["status"] != "ok"], group[group["contended"]]
    told = [f"{r.framework} {r.strategy}: {r.status}: {r.reason}" for r in lost.itertuples()]
    told += [f"{r.framework} {r.strategy}: {contention(excess)}" for r, excess in zip(late.itertuples(), late["excess"])]
    return Comparison(
        title,
        f"base = {BASELINES[first['scenario']]} of the same framework; GiB = 2^30 bytes; compare peaks only under one "
        f"instrument. break-even = steps until a longer first step has paid. Two processes of one case differ by "
        f"{BETWEEN_PROCESSES:.0%} in step time: less may be chance, and gives no break-even; {APART}. verified = largest "
        f"relative error against float64. {repeats(group)} {conditions(group)}",
        cells(group),
        SHOWN | {name: column for name, column in SHARES.items() if (group[name] > 0.01).any()},
        notes=tuple(dict.fromkeys(told)),
        machine=first["machine"],
        cases=tuple(group["case"]),
    )


def contention(excess: float) -> str:
    return f"a step took {excess:.2f} times its CPU time: others used the core, and its time is too long"


def frameworks(df: pd.DataFrame) -> Iterator[Comparison]:
    """The frameworks against each other by `host.rss`, the one instrument they share on a CPU: baselines only."""
    base = df[df["baseline"] & df["host_rss_bytes"].notna()].sort_values("measured_at")
    kinds = {"host_rss_bytes": ("GiB", ".3f", 1 / GIB), "step_time_s": ("ms", ",.1f", 1e3)}
    for (machine, scenario), group in base.groupby(["machine", "scenario"]):
        newest = group.drop_duplicates([*PLACE, "framework"], keep="last")
        wide = newest.pivot(index=PLACE, columns="framework", values=list(kinds))
        present = [(kind, f) for kind in kinds for f in FRAMEWORKS if (kind, f) in wide]
        columns = {f"{kind} {f}": Shown(f"{f} {kinds[kind][0]}", *kinds[kind][1:]) for kind, f in present}
        places = {name: Shown(name) for name in PLACE}
        yield Comparison(
            f"Frameworks side by side, {scenario} ({BASELINES[str(scenario)]})",
            f"peak by host.rss in GiB (2^30 bytes), median step time in ms. {repeats(group)} {conditions(group)}",
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
        f"Machine {one('machine')} ({one('cpu')}, device {one('device')}), threads {one('threads')}; "
        f"calibration {one('calibration')}; {', '.join(versions)}; measured {' to '.join(dict.fromkeys(days))} at "
        f"{', '.join(commits)}."
    )


def repeats(df: pd.DataFrame) -> str:
    """How the rows were measured: precision, warm-up, repeats, and the commands that did it."""
    protocols = ", ".join(sorted(map(str, df["protocol"].unique())))
    typed = sorted({typed_in_short(command) for command in df["command"].unique()})
    return (
        f"{precisions(df)} Protocol {protocols}: one process for the time ({Task.warmup} steps of warm-up or more, then n "
        f"timed ones), another for the memory; interval = bootstrap 95 % of the median over the n steps. "
        f"Measured by {', '.join(typed) if len(typed) <= 3 else f'{len(typed)} commands, which the records name'}."
    )


@cache
def typed_in_short(command: str) -> str:
    return shorten(command.replace("__main__.py ", "framebench ", 1), 100, placeholder=" ...")


def precisions(df: pd.DataFrame) -> str:
    """The precision of the rows' baseline, and the strategies that have another."""
    scenario = str(df["scenario"].iloc[0])
    default = find(scenario, BASELINES[scenario]).precision
    found = sorted((find(scenario, name).precision, name) for name in df["strategy"].unique())
    others = [f"{strategy} {precision}" for precision, strategy in found if precision != default]
    return f"Precision {default}; {', '.join(others)}." if others else f"Precision {default}."
