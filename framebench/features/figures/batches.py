"""How do memory and throughput grow with the batch?"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from framebench.analysis import rows
from framebench.analysis.comparison import MIB
from framebench.analysis.figures import page
from framebench.analysis.tables import of_card

CROSSES = {
    True: "Crosses: memory ran out, drawn at the limit.",
    False: "Crosses: memory ran out at an unknown peak; at the panel's edge.",
}


@page.styled
def curves(df: pd.DataFrame, limit: int | None = None) -> Figure | None:
    """`df`: one workload and scenario; `limit` in bytes. A panel for each instrument of the peaks, and one for throughput; None
    without a strategy that was measured at several batches."""
    used = rows.in_order(df[~df["only_for_claims"]])
    several = used.groupby(["framework", "strategy"], observed=True).filter(_spans)
    if several.empty:
        return None
    several = rows.in_order(several)
    measured = several[several["usable"]]
    what = "memory of the process" if of_card(measured) else "peak memory"
    panel = f"{what} by " + measured["shared_instrument"] + ", MiB"
    memory = measured.assign(value=measured["shared_bytes"] / MIB, panel=panel).dropna(subset="value")
    speed = measured.assign(value=measured["throughput"], panel=f"throughput, {measured['unit'].iloc[0]} / s").dropna(
        subset="value"
    )
    grid = sns.relplot(
        pd.concat([memory, speed]), kind="line", x="batch", y="value", col="panel", hue="framework", style="strategy",
        palette=page.COLOURS, markers=True, markersize=6, height=3.2, aspect=1.1, facet_kws={"sharey": False},
    )  # fmt: skip
    lost = several[several["status"] == "oom"]
    for panel, axes in grid.axes_dict.items():
        _octaves(axes, [*several["batch"].unique()])
        top = not panel.startswith("throughput")
        _crosses(axes, lost, limit / MIB if limit and top else None, top)
        axes.set_title(panel)
    grid.set_axis_labels("batch", "")
    grid.tight_layout()
    notes = f"Size {df['size'].iloc[0]}. MiB = 2^20 bytes. {CROSSES[limit is not None] if len(lost) else ''}"
    return page.explained(grid.figure, _curves_title(measured), rows.footer(several, notes))


def _spans(group: pd.DataFrame) -> bool:
    """Whether there are numbers for one batch at least, and for another one numbers, or a run out of memory."""
    shown = set(group["batch"][group["usable"]])
    return bool(shown) and len(shown | set(group["batch"][group["status"] == "oom"])) > 1


def _octaves(axes: Axes, batches: list[int]) -> None:
    """Both axes in powers of two, the upright one from whole octave to whole octave: there are always two ticks to read by."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    low, high = axes.dataLim.intervaly
    axes.set_ylim(2.0 ** math.floor(math.log2(low / 1.05)), 2.0 ** math.ceil(math.log2(high * 1.05)))
    axes.set_xticks(batches)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(page.PLAIN)
        axis.set_minor_locator(NullLocator())


def _crosses(axes: Axes, lost: pd.DataFrame, limit: float | None, top: bool) -> None:
    """A cross for each batch that ran out of memory: at the limit, or at the panel's edge if that is unknown."""
    if limit:
        axes.axhline(limit, color="black", linestyle="--", linewidth=1)
        axes.set_ylim(top=max(axes.get_ylim()[1], 1.1 * limit))
    height = limit or (0.97 if top else 0.03)
    where: dict[str, Any] = {} if limit else {"transform": axes.get_xaxis_transform()}
    for r in rows.each(lost):
        axes.plot(r.batch, height, "x", color=page.COLOURS[r.framework], markersize=8, markeredgewidth=2, **where)


def _curves_title(measured: pd.DataFrame) -> str:
    """How much the baseline's peak grows from its smallest to its largest batch."""
    base = measured[measured["baseline"]].sort_values("batch").groupby("framework", observed=True)[["batch", "shared_bytes"]]
    grown = (base.last() / base.first()).query("batch > 1")
    head = f"{measured['workload'].iloc[0]} {measured['scenario'].iloc[0]}"
    if grown.empty:
        return f"{head}: how peak and throughput grow with the batch"
    ends = {(low, high) for low, high in zip(base.first()["batch"][grown.index], base.last()["batch"][grown.index])}
    span = "batch {} to {}".format(*ends.pop()) if len(ends) == 1 else "smallest to largest batch"
    growth_text = rows.listed(f"{rows.times(r['shared_bytes'])} the peak in {f}" for f, r in grown.iterrows())
    return f"{head}, from {span}: {growth_text}"
