"""What does a strategy save, and what does it cost?

Peak against throughput, both as ratios to the framework's own baseline.
"""

from __future__ import annotations

import pandas as pd
import seaborn as sns
from adjustText import adjust_text
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from framebench.analysis import rows
from framebench.analysis.answers import describe_cost, rank_savings, select_comparable
from framebench.analysis.figures import page
from framebench.analysis.tables import describe_timing
from framebench.strategies.registry import find_baseline, look_up_strategy

# what takes so many times the baseline's peak is named below instead of drawn: nobody saves memory
# by it
BEYOND = 4.0
NOTE = (
    "Up and left is better. Each framework is compared with its own baseline ({}, where the lines "
    "cross) at the same batch. "
    "Bars: 95 % intervals. Named and joined: the front, for every peak the highest throughput."
)
LEADER = {"arrowstyle": "-", "color": "0.5", "linewidth": 0.5}  # from a name to its point


@page.apply_style
def draw_pareto(df: pd.DataFrame) -> Figure | None:
    """Draw a panel for each framework with strategies that have both ratios; None without any.

    `df` has the rows of one workload and scenario.
    """
    group = rows.select_shown(df)
    rated = rate_strategies(group)
    points = drop_lone_baselines(rated[rated["relative_peak"] < BEYOND])
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
    speeds = pd.concat([points["slowest"], points["fastest"]])
    page.set_logarithmic(
        first.xaxis,
        min(points["relative_peak"].min(), 0.8),
        max(points["relative_peak"].max(), 1.25),
    )
    page.set_logarithmic(first.yaxis, min(speeds.min(), 0.8), max(speeds.max(), 1.25))
    grid.tight_layout()
    for framework, axes in grid.axes_dict.items():
        mine = points[points["framework"] == framework]
        colour = page.COLOURS[framework]
        axes.set_title(rows.make_panel_title(framework, points), color=colour)
        axes.vlines(
            mine["relative_peak"],
            mine["slowest"],
            mine["fastest"],
            color=colour,
            linewidth=0.9,
            zorder=1,
        )
        name_front(axes, find_front(mine))
    return page.explain_figure(
        grid.figure, make_title(points), rows.make_footer(group, *make_notes(group, rated))
    )


def list_families(group: pd.DataFrame) -> list[str]:
    """Return the axis of each strategy that has a marker of its own, or else `OTHER`."""
    families = []
    for scenario, strategy in zip(group["scenario"], group["strategy"]):
        axis = look_up_strategy(scenario, strategy).axis
        families.append(axis if axis in page.MARKERS else page.OTHER)
    return families


def rate_strategies(group: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the same model with both ratios, that of times with its interval.

    `speed` is throughput over the baseline's, from `slowest` to `fastest`; `changes` is the
    strategy's family.
    """
    rated = group.assign(
        speed=1 / group["time_ratio"],
        slowest=1 / group["time_ratio_high"],
        fastest=1 / group["time_ratio_low"],
        changes=list_families(group),
    )
    is_proven = rated["usable"] & rated["same_mathematics"]
    return rated[is_proven].dropna(subset=["relative_peak", "slowest"])


def drop_lone_baselines(points: pd.DataFrame) -> pd.DataFrame:
    """Drop the frameworks of which the baseline alone is there: their panels would be empty."""
    only_baseline = points.groupby("framework", observed=True)["baseline"].transform("all")
    return rows.order_by_catalog(points[~only_baseline.astype(bool)])


def make_notes(group: pd.DataFrame, rated: pd.DataFrame) -> list[str]:
    """Return how to read the figure, and what is not drawn."""
    base = find_baseline(group["scenario"].iloc[0])
    notes = [f"{NOTE.format(base)} {describe_timing(group)} {rows.describe_batches(rated)}"]
    beyond = []
    for row in rows.iterate_rows(rated[rated["relative_peak"] >= BEYOND]):
        place = f"{rows.format_times(row.relative_peak)} at {rows.format_times(row.speed)}"
        beyond.append(f"{row.framework} {row.strategy} {place}")
    if beyond:
        names = rows.shorten_list(beyond)
        notes.append(f"Beyond the right edge (peak at throughput): {names}.")
    not_rated = group[group["usable"] & ~group.index.isin(rated.index)]
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


def name_front(axes: Axes, best: pd.DataFrame) -> None:
    """Draw a line through the front, and name its strategies."""
    sns.lineplot(
        best,
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
    for row in rows.iterate_rows(best[~best["baseline"]]):
        texts.append(axes.text(row.relative_peak, row.speed, str(row.strategy), size=6.5, zorder=6))
    if texts:  # otherwise there may be no points either
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


def make_title(points: pd.DataFrame) -> str:
    """Return the least memory of what is drawn of each framework, and what it costs."""
    parts = []
    for framework, ranked in rank_savings(select_comparable(points), "relative_peak"):
        if ranked:
            least = ranked[0]
            price = f"{rows.format_times(least.relative_peak)} the peak, {describe_cost(least)}"
            parts.append(f"{framework} {least.strategy} ({price})")
    head = rows.name_scenario(points)
    if not parts:
        return f"{head}: nothing that was timed takes less than the baseline"
    return f"{head}, lowest peak of what was timed: {rows.join_words(parts)}"
