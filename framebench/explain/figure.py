"""Draw when in a step memory is full: what one step holds, or several frameworks side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from framebench.analysis.figures import FigureRequest, page
from framebench.analysis.rendering import MIB, format_mib
from framebench.analysis.results import Results
from framebench.analysis.rows import format_size_suffix, iterate_rows, join_words, order_by_catalog
from framebench.explain.record import Explanation, LayerMemory, count_bytes_by_kind
from framebench.explain.table import (
    FINE,
    count_bytes,
    fold_numbers,
    load_explanations,
    select_newest_version,
)
from framebench.records.record_base import parse_case
from framebench.strategies.strategy import TITLES
from framebench.suite.sequences import group_by

COLOURS = {
    "forward": "#0173b2",
    "backward": "#de8f05",
    "optimizer": "#029e73",
}  # seaborn's `colorblind`
# the kinds that have a colour of their own, from the bottom up
KIND_COLOURS: dict[str, Any] = {
    "parameter": "#0173b2",
    "optimizer state": "#029e73",
    "gradient": "#de8f05",
    "saved for backward": "#d55e00",
    "recomputed": "#cc78bc",
    "temporary": "#56b4e9",
    "other": "#949494",
}
LARGEST = 10  # layers that have a bar; the others share one
NOTE = (
    "Tensors and buffers in use over one steady step, by an account of every one of them. An event "
    "is another thing in each framework, so widths are shares of the events and no times."
)

LAYERS_NOTE = (
    "Widths on the left are shares of the events, and no times. * stands for the numbers of layers "
    "that share a bar, which has their count in brackets."
)


def figures(results: Results, _machines: Iterable[str]) -> Iterator[FigureRequest]:
    """Yield a figure for each explained case that several frameworks have in common.

    A framework's case is that of its newest release.
    """
    explanations = select_newest_version(load_explanations(results.root))
    for parts, group in sorted(group_by(explanations, list_parts_but_framework).items()):
        workload, scenario, strategy, batch, size = parts
        moments = tabulate_moments(group)
        if moments["framework"].nunique() > 1:
            suffix = format_size_suffix(size)
            name = f"step-{workload}-{scenario}-{strategy}-b{batch}{suffix}"
            yield name, draw_frameworks, moments


def list_parts_but_framework(explanation: Explanation) -> tuple[str, ...]:
    """Return the parts of an explained case that are the same when frameworks are compared."""
    case = parse_case(explanation.case)
    return case.workload, case.scenario, case.strategy, str(case.batch), case.size


def tabulate_moments(explanations: Iterable[Explanation]) -> pd.DataFrame:
    """Return a row for each allocation or release.

    A row has its place in the step in %, and the MiB in use from then on.
    """
    tables = []
    for explanation in explanations:
        case = parse_case(explanation.case)
        moments = pd.DataFrame(explanation.timeline)
        events = explanation.timeline[-1].event + 1
        moments["at"] = 100 * moments["event"] / events
        moments["mib"] = moments["bytes"] / MIB
        # every row has the parts of the case
        moments = moments.assign(**asdict(case))
        moments["framework"] = TITLES[case.framework]
        moments["version"] = explanation.framework_version
        tables.append(moments)
    return pd.concat(tables, ignore_index=True)


@page.apply_style
def draw_frameworks(moments: pd.DataFrame) -> Figure:
    """Draw the step of one case in one or several frameworks.

    `moments` has the rows of `tabulate_moments`.
    """
    panels = order_by_catalog(moments).groupby("framework", observed=True, sort=True)
    count = panels.ngroups
    figure, grid = plt.subplots(1, count, figsize=(3.6 * count, 3.0), sharey=True, squeeze=False)
    peaks = []
    for axes, (framework, of_framework) in zip(grid.flat, panels):
        peaks.append(draw_panel(axes, thin_out(of_framework.sort_values("at", kind="stable"))))
        version = of_framework["version"].iloc[0]
        axes.set_title(f"{framework} {version}", color=page.COLOURS[str(framework)])
    first_axes = grid.flat[0]
    first_axes.set(ylabel="MiB in use", ylim=(0, 1.18 * moments["mib"].max()))
    handles, names = first_axes.get_legend_handles_labels()
    figure.tight_layout()
    figure.legend(
        handles,
        names,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.01),
        ncols=len(names),
        frameon=False,
    )
    first_row = next(iterate_rows(moments))
    question = (
        f"{first_row.workload} {first_row.scenario} {first_row.strategy}, batch {first_row.batch}"
    )
    finding = f"{question}: a step peaks at {join_words(peaks)}"
    return page.explain_figure(figure, finding, [NOTE])


def thin_out(moments: pd.DataFrame) -> pd.DataFrame:
    """Return the fullest moment in each half per cent of the step: a picture has no more points."""
    fullest = moments.groupby((2 * moments["at"]).astype(int))["mib"].idxmax()
    return moments.loc[fullest]


def draw_panel(axes: Axes, moments: pd.DataFrame) -> str:
    """Draw one curve in the colours of the phases, and return its peak in words."""
    for phase, colour in COLOURS.items():
        in_phase = moments["mib"].where(moments["phase"] == phase, 0)
        if in_phase.any():  # an evaluation has one phase
            axes.stairs(in_phase, [*moments["at"], 100], fill=True, color=colour, label=phase)
    peak = mark_peak(axes, moments)
    return f"{format_peak(peak)} in {peak['framework']} ({peak['phase']})"


def mark_peak(axes: Axes, moments: pd.DataFrame) -> pd.Series:
    """Mark the fullest moment and label the axis of a step, and return the moment's row."""
    peak = moments.nlargest(1, "mib").iloc[0]
    axes.plot(peak["at"], peak["mib"], "v", color="black", markersize=4)
    axes.annotate(
        format_peak(peak),
        xy=(peak["at"], peak["mib"]),
        xytext=(0, 5),
        textcoords="offset points",
        ha="center",
        size=8,
    )
    axes.set(xlim=(0, 100), xlabel="% of the step's events")
    return peak


def format_peak(moment: pd.Series) -> str:
    """Return the bytes of a moment in MiB."""
    return f"{format_mib(moment['bytes'], FINE)} MiB"


@page.apply_style
def draw_step(explanation: Explanation) -> Figure:
    """Draw what one step holds: by kind over the step, and by layer at its peak."""
    figure, (over_step, at_peak) = plt.subplots(1, 2, figsize=(8.6, 3.4))
    moments = tabulate_moments([explanation])
    thinned = thin_out(moments)
    kinds = merge_kinds(pd.DataFrame(explanation.timeline_by_kind)).loc[thinned.index]
    bottom = 0 * thinned["mib"]
    for kind, of_kind in kinds.items():
        top = bottom + of_kind / MIB
        colour = KIND_COLOURS[str(kind)]
        edges = [*thinned["at"], 100]
        over_step.stairs(top, edges, baseline=bottom, fill=True, color=colour, label=kind)
        bottom = top
    peak = mark_peak(over_step, thinned)
    over_step.set(title="Over the step", ylabel="MiB in use", ylim=(0, 1.18 * peak["mib"]))

    layers = merge_kinds(tabulate_kinds_by_layer(explanation)) / MIB
    layers.plot.barh(ax=at_peak, stacked=True, width=0.75, color=KIND_COLOURS, legend=False)
    at_peak.invert_yaxis()  # the largest above
    at_peak.set(title="At the peak, by layer", xlabel="MiB", ylabel="")
    at_peak.set_xlim(0, 1.04 * layers.sum(axis=1).max())
    at_peak.grid(False, axis="y")

    figure.tight_layout()
    handles, names = over_step.get_legend_handles_labels()
    figure.legend(
        handles, names, loc="upper center", bbox_to_anchor=(0.5, 0.01), ncols=7, frameon=False
    )
    largest, size = next(iter(explanation.kinds.items()))
    finding = (
        f"{explanation.case}: a step peaks at {format_peak(peak)} in {peak['phase']}, "
        f"{size / peak['bytes']:.0%} of it {largest}"
    )
    notes = [f"{peak['framework']} {peak['version']}. Counted: {explanation.how}.", LAYERS_NOTE]
    return page.explain_figure(figure, finding, notes)


def merge_kinds(sizes: pd.DataFrame) -> pd.DataFrame:
    """Return the bytes of each kind in KIND_COLOURS, in that order; other kinds are summed.

    What a step of JAX returns, such as `new parameter`, is of the kind that it replaces.

    Args:
        sizes: Bytes, with a column for each kind.
    """
    merged_kinds = []
    for kind in sizes:
        name = str(kind).removeprefix("new ")
        merged_kinds.append(name if name in KIND_COLOURS else "other")
    merged = sizes.T.groupby(merged_kinds).sum().T
    return merged[[kind for kind in KIND_COLOURS if kind in merged]]


def tabulate_kinds_by_layer(explanation: Explanation) -> pd.DataFrame:
    """Return the bytes at the peak with a row for each layer and a column for each kind.

    Layers that differ only in a number share a row. The largest come first. All layers after
    LARGEST rows share the last row, `the rest`.
    """
    groups = group_by(explanation.holders, lambda holder: fold_numbers(holder.layer))
    largest_first = sorted(groups.values(), key=count_bytes, reverse=True)
    rows = {}
    for holders in largest_first[:LARGEST]:
        rows[name_layers(holders)] = count_bytes_by_kind(holders)
    others = list(chain.from_iterable(largest_first[LARGEST:]))
    if others:
        rows["the rest"] = count_bytes_by_kind(others)
    return pd.DataFrame(list(rows.values()), index=list(rows)).fillna(0)


def name_layers(holders: Sequence[LayerMemory]) -> str:
    """Return the layer of these holders, or `blocks.*.fc1 (8)` for eight layers of such a name."""
    layers = {holder.layer for holder in holders}
    layer = holders[0].layer
    if len(layers) > 1:
        return f"{fold_numbers(layer)} ({len(layers)})"
    return layer or "(no layer)"
