"""What does a strategy save, and what does it cost? Peak against throughput, both as ratios to the framework's own baseline."""

from __future__ import annotations

import pandas as pd
import seaborn as sns
from adjustText import adjust_text
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from framebench.analysis import rows
from framebench.analysis.answers import compared, cost, least
from framebench.analysis.figures import page
from framebench.analysis.tables import timing
from framebench.suite.registry import baseline_of, look_up

BEYOND = 4.0  # what takes so many times the baseline's peak is named below instead of drawn: nobody saves memory by it
NOTE = (
    "Up and left is better. Each framework is compared with its own baseline ({}, where the lines cross) at the same batch. "
    "Bars: 95 % intervals. Named and joined: the front, for every peak the highest throughput."
)


@page.styled
def pareto(df: pd.DataFrame) -> Figure | None:
    """`df`: one workload and scenario. A panel for each framework with strategies that have both ratios; None without any."""
    group = rows.shown(df)
    rated = ratios(group)
    points = _with_strategies(rated[rated["step_ratio"] < BEYOND])
    if points.empty:
        return None
    grid = sns.relplot(
        points[~points["baseline"]], x="step_ratio", y="speed", col="framework", hue="framework", style="changes",
        col_order=points["framework"].cat.categories, palette=page.COLOURS, markers=page.MARKERS, s=55, height=3.4, aspect=1.05,
    )  # fmt: skip
    grid.refline(x=1, y=1, color="0.75", linewidth=0.8, linestyle="-")
    grid.set_axis_labels("peak memory / baseline's", "throughput / baseline's")
    for axis, ends in (
        (grid.axes.flat[0].xaxis, points["step_ratio"]),
        (grid.axes.flat[0].yaxis, pd.concat([points["slowest"], points["fastest"]])),
    ):
        page.logarithmic(axis, min(ends.min(), 0.8), max(ends.max(), 1.25))
    grid.tight_layout()
    for framework, axes in grid.axes_dict.items():
        mine = points[points["framework"] == framework]
        axes.set_title(rows.heading(framework, points), color=page.COLOURS[framework])
        axes.vlines(
            mine["step_ratio"], mine["slowest"], mine["fastest"], color=page.COLOURS[framework], linewidth=0.9, zorder=1
        )
        _name_front(axes, front(mine))
    return page.explained(grid.figure, title(group), rows.footer(group, *_notes(group, rated)))


def _with_strategies(points: pd.DataFrame) -> pd.DataFrame:
    """Without the frameworks of which the baseline alone is there: their panels would be empty."""
    kept = points.groupby("framework", observed=True)["baseline"].transform(lambda baseline: not baseline.all())
    return rows.in_order(points[kept.astype(bool)])


def _notes(group: pd.DataFrame, rated: pd.DataFrame) -> list[str]:
    """How to read it, and what is not drawn."""
    far = rated[rated["step_ratio"] >= BEYOND]
    beyond = [f"{r.framework} {r.strategy} {rows.times(r.step_ratio)} at {rows.times(r.speed)}" for r in rows.each(far)]
    apart = [f"{r.framework} {r.strategy}" for r in rows.each(group[group["usable"] & ~group.index.isin(rated.index)])]
    base = baseline_of(group["scenario"].iloc[0])
    return [
        f"{NOTE.format(base)} {timing(group)} {rows.batches(rated)}",
        f"Beyond the right edge (peak at throughput): {rows.shortened(beyond)}." if beyond else "",
        f"Not drawn, another model, or times without an interval: {rows.shortened(apart)}." if apart else "",
    ]


def ratios(group: pd.DataFrame) -> pd.DataFrame:
    """Rows of the same model with both ratios, that of times with its interval; `speed` is throughput over the baseline's, from
    `slowest` to `fastest`, `changes` the strategy's axis."""
    axes = [look_up(*place).axis for place in zip(group["scenario"], group["strategy"])]
    changes = [axis if axis in page.MARKERS else "other settings" for axis in axes]
    of_times = {"speed": "time_ratio", "slowest": "time_ratio_high", "fastest": "time_ratio_low"}
    made = group.assign(**{name: 1 / group[column] for name, column in of_times.items()}, changes=changes)
    return made[made["usable"] & made["same_mathematics"] & made["step_ratio"].notna() & made["slowest"].notna()]


def front(points: pd.DataFrame) -> pd.DataFrame:
    """By rising peak the points that no other beats: by less memory and no less speed, or by more speed and no more memory."""
    ranked = points.sort_values(["step_ratio", "speed"], ascending=[True, False], kind="stable")
    return ranked[ranked["speed"] > ranked["speed"].cummax().shift(fill_value=-1)]


def _name_front(axes: Axes, best: pd.DataFrame) -> None:
    """A line through the front, and the names of its strategies where they cover neither points nor each other."""
    sns.lineplot(
        best, x="step_ratio", y="speed", drawstyle="steps-post", color="0.5", linewidth=1, zorder=1, legend=False, ax=axes
    )
    named = best[~best["baseline"]]
    texts = [axes.text(r.step_ratio, r.speed, str(r.strategy), size=6.5, zorder=6) for r in rows.each(named)]
    leader = {"arrowstyle": "-", "color": "0.5", "linewidth": 0.5}
    if texts:  # otherwise there may be no points either
        adjust_text(texts, objects=axes.collections[0], ax=axes, iter_lim=300, expand=(1.1, 1.5), arrowprops=leader)


def title(group: pd.DataFrame) -> str:
    """The least memory of each framework's proven strategies, timed or not, and what it costs."""
    parts = [
        f"{framework} {found[0].strategy} ({rows.times(found[0].step_ratio)} the peak, {cost(found[0])})"
        if found
        else f"{framework} none"
        for framework, found in least(compared(group))
    ]
    return f"{group['workload'].iloc[0]} {group['scenario'].iloc[0]}, least memory: {rows.listed(parts)}"
