"""How much memory, and how fast? Peak against throughput of all frameworks, in MiB and samples."""

from __future__ import annotations

from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from framebench.analysis import rows
from framebench.analysis.figures import page
from framebench.analysis.figures.fronts import find_front, list_families, place_names
from framebench.analysis.rendering import MIB
from framebench.analysis.tables import describe_timing

NOTE = (
    "Up and left is better. Bars: the range over blocks. Named: the baselines, and what "
    "nothing beats in its framework."
)


@page.apply_style
def draw_memory_and_speed(df: pd.DataFrame) -> Figure | None:
    """Draw the peak and throughput of every strategy that was timed, at the usual batch.

    The strategies are proven, and compute what the baseline does. `df` has the rows of one workload
    and scenario. Returns None without a strategy next to a baseline.
    """
    group = rows.select_shown(df)
    points = select_timed(group)
    if points.empty or points["baseline"].all():
        return None
    grid = sns.relplot(
        points,
        x="mib",
        y="throughput",
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
    page.set_logarithmic(
        grid.ax.yaxis, points["throughput"].min(), 1.2 * points["throughput"].max()
    )
    for framework, mine in points.groupby("framework", observed=True):
        colour = page.COLOURS[str(framework)]
        grid.ax.vlines(
            mine["mib"], mine["slowest"], mine["fastest"], color=colour, linewidth=0.9, zorder=1
        )
    grid.set_axis_labels(rows.make_peak_label(points), f"{points['unit'].iloc[0]} per second")
    name_points(grid.ax, points)
    note = f"{NOTE} {describe_timing(group)} {rows.describe_batches(points)}"
    return page.explain_figure(grid.figure, make_title(points), rows.make_footer(group, note))


def select_timed(group: pd.DataFrame) -> pd.DataFrame:
    """Return the points of the figure.

    They have the peak in `mib`, the range of the throughput over blocks from `slowest` to
    `fastest`, and the strategy's family in `changes`.
    """
    work = group["throughput"] * group["step_time_s"]
    rated = group.assign(
        mib=group["shared_bytes"] / MIB,
        slowest=work / group["step_high_s"],
        fastest=work / group["step_low_s"],
        speed=group["throughput"],
        changes=list_families(group),
    )
    is_proven = rated["usable"] & rated["same_mathematics"]
    is_usual = rated["batch"] == rows.find_usual_batch(rated)
    shown = rated[is_proven & is_usual].dropna(subset=["mib", "speed"])
    return rows.order_by_catalog(shown)


def name_points(axes: Axes, points: pd.DataFrame) -> None:
    """Name the baselines and each framework's front."""
    named = []
    comparable = points.dropna(subset="relative_peak")
    for _, framework_points in comparable.groupby("framework", observed=True):
        named.append(find_front(framework_points))
    # a baseline may be on its framework's front, and is named once
    named.append(points[points["baseline"]])
    texts = []
    for row in rows.iterate_rows(pd.concat(named).drop_duplicates("case")):
        texts.append(axes.text(row.mib, row.throughput, str(row.strategy), size=7, zorder=6))
    place_names(axes, texts)


def make_title(points: pd.DataFrame) -> str:
    """Return the fastest, and the one with the least memory of those that were timed."""
    fastest = points.nlargest(1, "throughput").iloc[0]
    leanest = points.nsmallest(1, "mib").iloc[0]
    return (
        f"{fastest.workload} {fastest.scenario}: fastest {describe_point(fastest)}; "
        f"least memory of what was timed {describe_point(leanest)}"
    )


def describe_point(row: Any) -> str:
    """Return a strategy with its memory and throughput."""
    speed = f"{row.throughput:,.0f} {row.unit}/s"
    return f"{row.framework} {row.strategy} ({row.mib:,.0f} MiB, {speed})"
