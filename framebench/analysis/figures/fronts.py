"""What does a strategy save, and what does it cost? Peak against throughput.

Once as ratios to the framework's own baseline, once in MiB and samples of all frameworks together.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import seaborn as sns
from adjustText import adjust_text
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from framebench.analysis import rows
from framebench.analysis.answers import describe_cost, rank_savings, select_comparable
from framebench.analysis.figures import page
from framebench.analysis.needs import are_equal_amounts
from framebench.analysis.rendering import MIB
from framebench.analysis.tables import describe_timing
from framebench.strategies.registry import find_baseline

# strategies of so many times the baseline's peak are named below, not drawn: they save no memory
# by it
BEYOND = 4.0
RATIOS_NOTE = (
    "Up and left is better. Each framework is compared with its own baseline ({}, where the lines "
    "cross) at the same batch. "
    "Bars: 95 % intervals. Named and joined: the front, for every peak the highest throughput."
)
ABSOLUTE_NOTE = (
    "Up and left is better. Bars: the range over blocks. Named: the baselines, and what "
    "nothing beats in its framework."
)
LEADER = {"arrowstyle": "-", "color": "0.5", "linewidth": 0.5}  # from a name to its point


@page.apply_style
def draw_pareto(df: pd.DataFrame) -> Figure | None:
    """Draw a panel for each framework with strategies that have both ratios; None without any.

    `df` has the rows of one workload and scenario.
    """
    group = rows.select_shown(df)
    proven = select_proven(group)
    rated = proven.assign(
        speed=1 / proven["time_ratio"],
        slowest=1 / proven["time_ratio_high"],
        fastest=1 / proven["time_ratio_low"],
    )
    rated = rated.dropna(subset=["relative_peak", "slowest"])
    drawn = rated[rated["relative_peak"] < BEYOND]
    # the panel of a framework with only its baseline would be empty
    is_lone = drawn.groupby("framework", observed=True)["baseline"].transform("all")
    points = rows.order_by_catalog(drawn[~is_lone.astype(bool)])
    if points.empty:
        return None
    panels = points["framework"].nunique()
    grid = sns.relplot(
        points[~points["baseline"]],
        x="relative_peak",
        y="speed",
        col="framework",
        hue="framework",
        style="changes",
        col_order=points["framework"].cat.categories,
        palette=page.COLOURS,
        markers=page.MARKERS,
        s=55,
        height=3.4 if panels == 1 else 2.6,  # three fit the width of a printed page
        aspect=1.05,
    )
    grid.refline(x=1, y=1, color="0.75", linewidth=0.8, linestyle="-")
    grid.set_axis_labels("peak memory / baseline's", "throughput / baseline's")
    first = grid.axes.flat[0]
    peaks = points["relative_peak"]
    page.set_logarithmic(first.xaxis, min(peaks.min(), 0.8), max(peaks.max(), 1.25))
    slowest, fastest = points["slowest"].min(), points["fastest"].max()
    page.set_logarithmic(first.yaxis, min(slowest, 0.8), max(fastest, 1.25))
    grid.tight_layout()
    for framework, axes in grid.axes_dict.items():
        mine = points[points["framework"] == framework]
        colour = page.COLOURS[framework]
        axes.set_title(rows.make_panel_title(framework, points), color=colour)
        draw_ranges(axes, mine, "relative_peak", colour)
        draw_front(axes, find_front(mine))
    return page.explain_figure(
        grid.figure, describe_least(points), rows.make_footer(group, *make_notes(group, rated))
    )


@page.apply_style
def draw_memory_and_speed(df: pd.DataFrame) -> Figure | None:
    """Draw the peak and throughput of every strategy that was timed, at the usual batch.

    The strategies are proven, and compute what the baseline does. `df` has the rows of one workload
    and scenario. Returns None without a strategy next to a baseline.
    """
    group = rows.select_shown(df)
    proven = select_proven(group)
    rated = proven.assign(
        mib=proven["shared_bytes"] / MIB,
        speed=proven["throughput"],
        slowest=proven["throughput_low"],
        fastest=proven["throughput_high"],
    )
    is_usual = rated["batch"] == rows.find_usual_batch(group)
    points = rows.order_by_catalog(rated[is_usual].dropna(subset=["mib", "speed"]))
    if points.empty or points["baseline"].all():
        return None
    grid = sns.relplot(
        points,
        x="mib",
        y="speed",
        hue="framework",
        style="changes",
        palette=page.COLOURS,
        markers=page.MARKERS,
        s=60,
        height=4.2,
        aspect=1.5,
    )
    page.set_logarithmic(grid.ax.xaxis, points["mib"].min(), points["mib"].max())
    # the names of the fastest need room above them
    page.set_logarithmic(grid.ax.yaxis, points["speed"].min(), 1.2 * points["speed"].max())
    named = []
    for framework, mine in points.groupby("framework", observed=True):
        draw_ranges(grid.ax, mine, "mib", page.COLOURS[str(framework)])
        named.append(find_front(mine.dropna(subset="relative_peak")))
    grid.set_axis_labels(rows.make_peak_label(points), f"{points['unit'].iloc[0]} per second")
    # a baseline may be on its framework's front, and is named once
    named.append(points[points["baseline"]])
    texts = []
    for row in rows.iterate_rows(pd.concat(named).drop_duplicates("case")):
        texts.append(grid.ax.text(row.mib, row.speed, str(row.strategy), size=7, zorder=6))
    place_names(grid.ax, texts)
    fastest = describe_point(points.nlargest(1, "speed").iloc[0])
    leanest = describe_point(points.nsmallest(1, "mib").iloc[0])
    title = (
        f"{rows.name_scenario(points)}: fastest {fastest}; least memory of what was timed {leanest}"
    )
    note = f"{ABSOLUTE_NOTE} {describe_timing(group)} {rows.describe_batches(points)}"
    return page.explain_figure(grid.figure, title, rows.make_footer(group, note))


def select_proven(group: pd.DataFrame) -> pd.DataFrame:
    """Return the proven rows of the same model, with the strategy's family in `changes`."""
    proven = group[group["usable"] & group["same_mathematics"]]
    families = map(page.find_family, proven["scenario"], proven["strategy"])
    return proven.assign(changes=list(families))


def draw_ranges(axes: Axes, points: pd.DataFrame, x: str, colour: str) -> None:
    """Draw the range of each point's speed, where it has one."""
    ranged = points.dropna(subset=["slowest", "fastest"])
    axes.vlines(
        ranged[x], ranged["slowest"], ranged["fastest"], color=colour, linewidth=0.9, zorder=1
    )


def describe_point(row: Any) -> str:
    """Return a strategy with its memory and throughput."""
    return f"{row.framework} {row.strategy} ({row.mib:,.0f} MiB, {row.speed:,.0f} {row.unit}/s)"


def make_notes(group: pd.DataFrame, rated: pd.DataFrame) -> list[str]:
    """Return how to read the ratios, and the strategies that are not drawn."""
    base = find_baseline(group["scenario"].iloc[0])
    notes = [f"{RATIOS_NOTE.format(base)} {describe_timing(group)} {rows.describe_batches(rated)}"]
    beyond = []
    for row in rows.iterate_rows(rated[rated["relative_peak"] >= BEYOND]):
        peak = rows.format_times(row.relative_peak)
        throughput = rows.format_times(row.speed)
        beyond.append(f"{row.framework} {row.strategy} {peak} at {throughput}")
    if beyond:
        names = rows.shorten_list(beyond)
        notes.append(f"Beyond the right edge (peak at throughput): {names}.")
    is_rated = group.index.isin(rated.index)
    not_rated = group[group["usable"] & ~is_rated]
    if not not_rated.empty:
        names = rows.shorten_list(rows.name_strategies(not_rated))
        notes.append(f"Not drawn, another model, or times without an interval: {names}.")
    return notes


def find_front(points: pd.DataFrame) -> pd.DataFrame:
    """Return by rising peak the points that no other beats.

    One is beaten by less memory and no less speed, or by more speed and no more memory.
    """
    ranked = points.sort_values(["relative_peak", "speed"], ascending=[True, False], kind="stable")
    fastest_so_far = ranked["speed"].cummax().shift(fill_value=-1)
    return ranked[ranked["speed"] > fastest_so_far]


def draw_front(axes: Axes, front: pd.DataFrame) -> None:
    """Draw a line through the front, and name its strategies."""
    sns.lineplot(
        front,
        x="relative_peak",
        y="speed",
        drawstyle="steps-post",
        color="0.5",
        linewidth=1,
        zorder=1,
        legend=False,
        ax=axes,
    )
    texts = []
    for row in rows.iterate_rows(front[~front["baseline"]]):
        texts.append(axes.text(row.relative_peak, row.speed, str(row.strategy), size=6.5, zorder=6))
    if texts:  # an empty panel lacks the collection of points that `place_names` keeps free
        place_names(axes, texts)


def place_names(axes: Axes, texts: list[Text]) -> None:
    """Move the names until they cover neither points nor each other."""
    adjust_text(
        texts,
        objects=axes.collections[0],
        ax=axes,
        iter_lim=1000,
        expand=(1.2, 1.6),
        force_text=(0.3, 0.6),
        arrowprops=LEADER,
    )


def describe_least(points: pd.DataFrame) -> str:
    """Return each framework's point of least memory in words, with its cost.

    There are several where their peaks are equal.
    """
    parts = []
    for framework, ranked in rank_savings(select_comparable(points), "relative_peak"):
        for row in ranked:
            if are_equal_amounts(row.relative_peak, ranked[0].relative_peak):
                price = f"{rows.format_times(row.relative_peak)} the peak, {describe_cost(row)}"
                parts.append(f"{framework} {row.strategy} ({price})")
    head = rows.name_scenario(points)
    if not parts:
        return f"{head}: nothing that was timed takes less than the baseline"
    return f"{head}, lowest peak of what was timed: {rows.join_words(parts)}"
