"""What does a strategy save, and what does it cost? Peak against throughput, both as ratios to the framework's own baseline."""

from __future__ import annotations

import pandas as pd
import seaborn as sns
from adjustText import adjust_text
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from framebench.analysis import rows
from framebench.analysis.figures import page
from framebench.analysis.frames import decided
from framebench.analysis.tables import timing
from framebench.suite.registry import BASELINES, find

SAVES = 0.97  # a peak ratio above this is no saving worth a title
BEYOND = 4.0  # what takes so many times the baseline's peak is named below instead of drawn: nobody saves memory by it
NOTE = (
    "Up and left is better. Each framework is compared with its own baseline ({}, where the lines cross) at the same batch, by "
    "its own instrument. Named and joined: the front, for every peak the highest throughput."
)


@page.styled
def pareto(df: pd.DataFrame, undecided: bool = False) -> Figure | None:
    """`df`: one workload and scenario. A panel for each framework; None without strategies that have both ratios. Ratios of
    times that are `undecided` are left out, or shown with their interval as a bar."""
    group = rows.shown(df)
    rated = ratios(group, undecided)
    points = rated[rated["peak_ratio"] < BEYOND]
    if points["baseline"].all():
        return None
    grid = sns.relplot(
        points[~points["baseline"]], x="peak_ratio", y="speed", col="framework", hue="framework", style="changes",
        col_order=points["framework"].cat.categories, palette=page.COLOURS, markers=page.MARKERS, s=55, height=3.4, aspect=1.05,
    )  # fmt: skip
    grid.refline(x=1, y=1, color="0.75", linewidth=0.8, linestyle="-")
    grid.set_axis_labels("peak memory / baseline's", "throughput / baseline's")
    bars = points[~points["clear"]]
    for axis, ends in (
        (grid.axes.flat[0].xaxis, points["peak_ratio"]),
        (grid.axes.flat[0].yaxis, pd.concat([points["speed"], bars["slowest"], bars["fastest"]])),
    ):
        page.logarithmic(axis, min(ends.min(), 0.8), max(ends.max(), 1.25))
    grid.tight_layout()
    for framework, axes in grid.axes_dict.items():
        axes.set_title(rows.heading(framework, points), color=page.COLOURS[framework])
        for r in rows.each(bars[bars["framework"] == framework]):
            axes.vlines(r.peak_ratio, r.slowest, r.fastest, color=page.COLOURS[framework], linewidth=0.7, zorder=1)
        _name_front(axes, front(points[points["framework"] == framework]))
    return page.explained(
        grid.figure, title(points, len(_unrated(group, rated)) > 0), rows.footer(group, *_notes(group, rated))
    )


def _notes(group: pd.DataFrame, rated: pd.DataFrame) -> list[str]:
    """How to read it, and what is not drawn."""
    far = rated[rated["peak_ratio"] >= BEYOND]
    beyond = [f"{r.framework} {r.strategy} {rows.times(r.peak_ratio)} at {rows.times(r.speed)}" for r in rows.each(far)]
    apart = [f"{r.framework} {r.strategy}" for r in rows.each(_unrated(group, rated))]
    base = BASELINES[group["scenario"].iloc[0]]
    return [
        f"{NOTE.format(base)} {timing(group)} {rows.batches(rated)}",
        "" if rated["clear"].all() else "Bars: the interval of what is undecided.",
        f"Beyond the right edge (peak at throughput): {rows.shortened(beyond)}." if beyond else "",
        f"Not drawn, another model, or times without a decided ratio: {rows.shortened(apart)}." if apart else "",
    ]


def ratios(group: pd.DataFrame, undecided: bool) -> pd.DataFrame:
    """Rows of the same model with both ratios, that of times decided or with an interval; `speed` is throughput over the
    baseline's, from `slowest` to `fastest`, `clear` whether that is decided, `changes` the strategy's axis."""
    axes = [find(*place).axis for place in zip(group["scenario"], group["strategy"])]
    changes = [axis if axis in page.MARKERS else "other settings" for axis in axes]
    of_times = {"speed": "time_ratio", "slowest": "time_ratio_high", "fastest": "time_ratio_low"}
    made = group.assign(**{name: 1 / group[column] for name, column in of_times.items()}, changes=changes)
    made["clear"] = decided(made)
    timed = made["slowest"].notna() if undecided else made["clear"]
    return made[made["usable"] & made["same_mathematics"] & made["peak_ratio"].notna() & timed]


def _unrated(group: pd.DataFrame, rated: pd.DataFrame) -> pd.DataFrame:
    return group[group["usable"] & ~group.index.isin(rated.index)]


def front(points: pd.DataFrame) -> pd.DataFrame:
    """By rising peak the points that no other beats: by less memory and no less speed, or by more speed and no more memory."""
    ranked = points.sort_values(["peak_ratio", "speed"], ascending=[True, False], kind="stable")
    return ranked[ranked["speed"] > ranked["speed"].cummax().shift(fill_value=-1)]


def _name_front(axes: Axes, best: pd.DataFrame) -> None:
    """A line through the front, and the names of its strategies where they cover neither points nor each other."""
    sns.lineplot(
        best, x="peak_ratio", y="speed", drawstyle="steps-post", color="0.5", linewidth=1, zorder=1, legend=False, ax=axes
    )
    named = best[~best["baseline"]]
    texts = [axes.text(r.peak_ratio, r.speed, str(r.strategy), size=6.5, zorder=6) for r in rows.each(named)]
    leader = {"arrowstyle": "-", "color": "0.5", "linewidth": 0.5}
    if texts:  # otherwise there may be no points either
        adjust_text(texts, objects=axes.collections[0], ax=axes, iter_lim=300, expand=(1.1, 1.5), arrowprops=leader)


def title(points: pd.DataFrame, partly: bool) -> str:
    """The least memory that each framework's front reaches, and what it costs; `partly`: some cases are not drawn."""
    parts = []
    for framework, framework_points in points.groupby("framework", observed=True):
        least = front(framework_points).iloc[0]
        speed = rows.times(least["speed"]) if least["clear"] else rows.between([least["slowest"], least["fastest"]])
        saves = f"{least['strategy']} ({rows.times(least['peak_ratio'])} the peak at {speed} the throughput)"
        parts.append(f"in {framework} {saves if least['peak_ratio'] < SAVES else 'no strategy saves'}")
    what = "least memory of what is drawn" if partly else "least memory"
    return f"{points['workload'].iloc[0]} {points['scenario'].iloc[0]}, {what}: {rows.listed(parts)}"
