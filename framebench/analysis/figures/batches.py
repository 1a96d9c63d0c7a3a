"""How do memory and throughput grow with the batch?"""

from __future__ import annotations

import math

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from framebench.analysis import rows
from framebench.analysis.batch_tables import NOTED_CHANGE, select_strategies_at_several_batches
from framebench.analysis.figures import page
from framebench.analysis.rendering import MIB
from framebench.analysis.tables import is_on_gpu

QUANTITIES = {"relative_peak": "peak", "relative_throughput": "throughput"}
CROSSES = "Crosses: memory ran out at an unknown peak; at the panel's edge."


@page.apply_style
def draw_curves(df: pd.DataFrame) -> Figure | None:
    """Draw the baselines: a panel for each instrument of the peaks, and one for throughput.

    `df` has the rows of one workload and scenario. Returns None without a baseline that was
    measured at several batches.
    """
    baselines = rows.order_by_catalog(df[df["baseline"]])
    several = baselines.groupby("framework", observed=True).filter(has_several_batches)
    if several.empty:
        return None
    several = rows.order_by_catalog(several)
    measured = several[several["usable"]]
    lost = several[several["status"] == "oom"]
    grid = sns.relplot(
        make_panels(measured),
        kind="line",
        x="batch",
        y="value",
        col="panel",
        hue="framework",
        palette=page.COLOURS,
        marker="o",
        markersize=6,
        height=3.2,
        aspect=1.1,
        facet_kws={"sharey": False},
    )
    for panel, axes in grid.axes_dict.items():
        set_octaves(axes, list(several["batch"].unique()))
        # a batch that ran out of memory needs more than the panel shows, and has no throughput
        height = 0.03 if panel.startswith("throughput") else 0.97  # in shares of the panel
        for row in rows.iterate_rows(lost):
            axes.plot(
                row.batch,
                height,
                "x",
                color=page.COLOURS[row.framework],
                markersize=8,
                markeredgewidth=2,
                transform=axes.get_xaxis_transform(),
            )
        axes.set_title(panel)
    grid.set_axis_labels("batch", "")
    grid.tight_layout()
    notes = f"Size {df['size'].iloc[0]}. MiB = 2^20 bytes. {'' if lost.empty else CROSSES}"
    return page.explain_figure(
        grid.figure, describe_growth(measured), rows.make_footer(several, notes)
    )


def has_several_batches(group: pd.DataFrame) -> bool:
    """Return whether one batch has numbers, and another has numbers or ran out of memory."""
    is_lost = group["status"] == "oom"
    return bool(group["usable"].any()) and group["batch"][group["usable"] | is_lost].nunique() > 1


def make_panels(measured: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the memory panels, then those of the throughput panel.

    `panel` is the title of a row's panel, `value` what is drawn there.
    """
    what = "memory of the process" if is_on_gpu(measured) else "peak memory"
    memory = measured.assign(
        value=measured["shared_bytes"] / MIB,
        panel=f"{what} by " + measured["shared_instrument"] + ", MiB",
    )
    speed = measured.assign(
        value=measured["throughput"],
        panel=f"throughput, {measured['unit'].iloc[0]} / s",
    ).dropna(subset="value")
    timed_batches = speed.groupby("framework", observed=True)["batch"].nunique()
    if not (timed_batches > 1).any():  # single points say nothing about batches
        speed = speed.iloc[:0]
    return pd.concat([memory.dropna(subset="value"), speed])


def set_octaves(axes: Axes, batches: list[int]) -> None:
    """Make both axes logarithmic to base 2.

    The vertical one begins and ends at a power of two, so that it has at least two ticks.
    """
    axes.set_yscale("log", base=2)
    low, high = axes.dataLim.intervaly
    # 5 % more to each side, so that no mark lies on the edge
    lowest = math.floor(math.log2(low / 1.05))
    highest = math.ceil(math.log2(high * 1.05))
    axes.set_ylim(2.0**lowest, 2.0**highest)
    axes.yaxis.set_major_formatter(page.PLAIN)
    axes.yaxis.set_minor_locator(NullLocator())
    set_batches(axes, batches)


def set_batches(axes: Axes, batches: list[int]) -> None:
    """Make the lower axis logarithmic with a tick at each batch."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(batches)
    # matplotlib would write powers of two as 2^n, and crowd the axis with minor ticks
    axes.xaxis.set_major_formatter(page.PLAIN)
    axes.xaxis.set_minor_locator(NullLocator())


def describe_growth(measured: pd.DataFrame) -> str:
    """Return how much the baseline's peak grows from its smallest to its largest batch."""
    head = rows.name_scenario(measured)
    baselines = measured.sort_values("batch").groupby("framework", observed=True)
    first = baselines[["batch", "shared_bytes"]].first()
    last = baselines[["batch", "shared_bytes"]].last()
    growth = (last / first).query("batch > 1")
    if growth.empty:
        return f"{head}: how peak and throughput grow with the batch"
    lows = first["batch"][growth.index].unique()
    highs = last["batch"][growth.index].unique()
    span = "smallest to largest batch"
    if len(lows) == 1 and len(highs) == 1:
        span = f"batch {lows[0]} to {highs[0]}"
    parts = []
    for framework, times in growth["shared_bytes"].items():
        parts.append(f"{rows.format_times(times)} the peak in {framework}")
    return f"{head}, from {span}: {rows.join_words(parts)}"


@page.apply_style
def draw_savings(df: pd.DataFrame) -> Figure | None:
    """Draw each strategy's peak and throughput over those of the baseline at the same batch.

    A column is a framework, a row a quantity. `df` has the rows of one workload and scenario.
    Returns None if no strategy but the baseline was measured at several batches.
    """
    several = select_strategies_at_several_batches(df[~df["only_for_claims"]])
    compared = several[~several["baseline"]]
    if compared.empty:
        return None
    compared = rows.order_by_catalog(compared)
    place = ["framework", "strategy", "batch"]
    long = compared.melt(place, list(QUANTITIES), var_name="quantity").dropna(subset="value")
    grid = sns.relplot(
        long,
        kind="line",
        x="batch",
        y="value",
        col="framework",
        row="quantity",
        hue="strategy",
        style="strategy",
        palette="colorblind",
        markers=True,
        dashes=False,
        markersize=6,
        height=2.6,
        aspect=1.1,
        facet_kws={"sharey": "row", "sharex": True},
    )
    drawn = set(zip(long["quantity"], long["framework"]))
    for (quantity, framework), axes in grid.axes_dict.items():
        # a framework whose steps were not timed has only its peaks
        axes.set_visible((quantity, framework) in drawn)
        axes.axhline(1, color="0.4", linewidth=1)
        set_batches(axes, sorted(compared["batch"].unique()))
        axes.set_title(f"{framework}: {QUANTITIES[quantity]}")
    grid.set_axis_labels("batch", "over the baseline's")
    for row_axes in grid.axes:
        highest = row_axes[0].get_ylim()[1]
        row_axes[0].set_ylim(0, 1.05 * highest)  # no mark lies on the edge
    for (_, framework), axes in grid.axes_dict.items():
        if ("relative_throughput", framework) not in drawn:
            axes.tick_params(labelbottom=True)  # nothing below it has the batches
            axes.set_xlabel("batch", visible=True)
    grid.tight_layout()
    notes = (
        f"Size {df['size'].iloc[0]}. The baseline is the line at 1: that of the same "
        "framework at the same batch."
    )
    return page.explain_figure(
        grid.figure, describe_savings(compared), rows.make_footer(several, notes)
    )


def describe_savings(compared: pd.DataFrame) -> str:
    """Return which strategy's share of the peak depends most on the batch."""
    head = rows.name_scenario(compared)
    strategies = compared.sort_values("batch").groupby(["framework", "strategy"], observed=True)
    shares = strategies["relative_peak"]
    change = shares.max() - shares.min()
    if change.max() <= NOTED_CHANGE:
        return f"{head}: what a strategy saves does not depend on the batch"
    group = strategies.get_group(change.idxmax())
    first, last = group.iloc[0], group.iloc[-1]
    return (
        f"{head}: {first['strategy']} in {first['framework']} takes {first['relative_peak']:.0%} "
        f"of the baseline's peak at batch {first['batch']}, {last['relative_peak']:.0%} at batch "
        f"{last['batch']}"
    )
