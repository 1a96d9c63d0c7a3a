"""How much memory and how fast, in one picture of all frameworks: peak against throughput, in their units."""

from __future__ import annotations

import pandas as pd
import seaborn as sns
from adjustText import adjust_text
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from framebench.analysis import rows
from framebench.analysis.comparison import MIB
from framebench.analysis.figures import page
from framebench.analysis.figures.fronts import front
from framebench.analysis.tables import timing
from framebench.suite.registry import look_up

NOTE = "Up and left is better. Bars: the range over blocks. Named: the baselines, and what nothing beats in its framework."


@page.styled
def memory_and_speed(df: pd.DataFrame) -> Figure | None:
    """`df`: one workload and scenario. Every proven strategy that computes what the baseline does and was timed, at the usual
    batch; None without a strategy beside a baseline."""
    group = rows.shown(df)
    points = timed(group)
    if points.empty or points["baseline"].all():
        return None
    grid = sns.relplot(
        points, x="mib", y="throughput", hue="framework", style="changes", palette=page.COLOURS, markers=page.MARKERS, s=60,
        height=4.2, aspect=1.5,
    )  # fmt: skip
    for axis, ends in ((grid.ax.xaxis, points["mib"]), (grid.ax.yaxis, points["throughput"])):
        page.logarithmic(axis, ends.min(), ends.max())
    for framework, mine in points.groupby("framework", observed=True):
        colour = page.COLOURS[str(framework)]
        grid.ax.vlines(mine["mib"], mine["slowest"], mine["fastest"], color=colour, linewidth=0.9, zorder=1)
    unit = points["unit"].iloc[0]
    grid.set_axis_labels(rows.peak_label(points), f"{unit} per second")
    _name(grid.ax, points)
    return page.explained(grid.figure, _title(points), rows.footer(group, f"{NOTE} {timing(group)} {rows.batches(points)}"))


def timed(group: pd.DataFrame) -> pd.DataFrame:
    """With `mib`, the ends of the throughput over blocks, and the strategy's family in `changes`."""
    axes = [look_up(*place).axis for place in zip(group["scenario"], group["strategy"])]
    work = group["throughput"] * group["step_time_s"]
    made = group.assign(
        mib=group["shared_bytes"] / MIB, slowest=work / group["step_high_s"], fastest=work / group["step_low_s"],
        speed=group["throughput"], changes=[axis if axis in page.MARKERS else "other settings" for axis in axes],
    )  # fmt: skip
    proven = made["usable"] & made["same_mathematics"] & made["mib"].notna() & made["speed"].notna()
    return rows.in_order(made[proven & (made["batch"] == rows.usual_batch(made))])


def _name(axes: Axes, points: pd.DataFrame) -> None:
    best = pd.concat([front(mine) for _, mine in points.dropna(subset="step_ratio").groupby("framework", observed=True)])
    named = pd.concat([best, points[points["baseline"]]]).drop_duplicates("case")
    texts = [axes.text(r.mib, r.throughput, str(r.strategy), size=7, zorder=6) for r in rows.each(named)]
    leader = {"arrowstyle": "-", "color": "0.5", "linewidth": 0.5}
    adjust_text(texts, objects=axes.collections[0], ax=axes, iter_lim=300, expand=(1.1, 1.5), arrowprops=leader)


def _title(points: pd.DataFrame) -> str:
    """The fastest, and the one with the least memory of those that were timed."""
    fast, lean = (next(rows.each(best)) for best in (points.nlargest(1, "throughput"), points.nsmallest(1, "mib")))
    said = (f"{r.framework} {r.strategy} ({r.mib:,.0f} MiB, {r.throughput:,.0f} {r.unit}/s)" for r in (fast, lean))
    return "{} {}: fastest {}; least memory of what was timed {}".format(fast.workload, fast.scenario, *said)
