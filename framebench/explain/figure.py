"""When in a step is memory full?

A figure of one step, and one of the steps of several frameworks side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from framebench.analysis import rows
from framebench.analysis.figures import FigureRequest, page
from framebench.analysis.rendering import MIB, format_mib
from framebench.analysis.results import Results
from framebench.explain.record import Explanation
from framebench.explain.table import FINE, find_release, load_explanations, select_newest
from framebench.records.record import parse_case

COLOURS = {
    "forward": "#0173b2",
    "backward": "#de8f05",
    "optimizer": "#029e73",
}  # seaborn's `colorblind`
LEAST_SHARE = 0.001  # of the peak: a smaller kind has no bar
NOTE = (
    "Tensors and buffers in use over one steady step, by an account of every one of them. An event "
    "is another thing in each framework, so widths are shares of the events and no times."
)


@page.apply_style
def draw_step(explanation: Explanation) -> Figure:
    """Draw the bytes in use over one step, coloured by phase, and next to it what they are at the
    peak.
    """
    figure, (timeline_axes, kinds_axes) = plt.subplots(1, 2, figsize=(11, 3.6), width_ratios=(3, 1))
    draw_timeline(explanation, timeline_axes)
    draw_kinds(explanation, kinds_axes)
    sns.despine(figure)
    figure.tight_layout()
    figure.legend(loc="upper center", bbox_to_anchor=(0.5, 0.01), ncols=6, frameon=False)
    peak = explanation.peak
    largest_kind, *_ = explanation.kinds
    share = f"{explanation.kinds[largest_kind] / peak.bytes:.0%} {largest_kind}"
    finding = (
        f"{explanation.case}: peak {format_mib(peak.bytes, FINE)} MiB in {peak.phase}, {share}"
    )
    versions = ", ".join(f"{name} {version}" for name, version in explanation.versions.items())
    return page.explain_figure(
        figure, finding, [f"One steady step on {explanation.device}; {versions}."]
    )


def draw_timeline(explanation: Explanation, axes: Axes) -> None:
    """Draw one curve in the colours of the phases, below lines for what was measured."""
    timeline = explanation.timeline
    moments = pd.DataFrame(timeline)
    edges = [*moments["event"], timeline[-1].event + 1]
    draw_phases(axes, edges, moments["bytes"] / MIB, moments["phase"])
    axes.plot(
        explanation.peak.event, explanation.peak.bytes / MIB, "v", color="black", label="peak"
    )
    # what the allocator reserves is more than it gives out, and would flatten the curve
    instruments = [name for name in explanation.measured if name != "allocator.reserved"]
    for name, style in zip(instruments, ("--", ":")):
        axes.axhline(
            explanation.measured[name] / MIB,
            color="0.3",
            linestyle=style,
            label=f"measured: {name}",
        )
    axes.set(xlim=(0, edges[-1]), ylim=(0, None), xlabel="event", ylabel="MiB in use")


def draw_phases(axes: Axes, edges: list[float], heights: pd.Series, phases: pd.Series) -> None:
    """Draw one curve in the colours of the phases.

    `edges` has the events, and the end of the step.
    """
    for phase, colour in COLOURS.items():
        in_phase = heights.where(phases == phase, 0)
        if in_phase.any():
            axes.stairs(in_phase, edges, fill=True, color=colour, label=phase)


def draw_kinds(explanation: Explanation, axes: Axes) -> None:
    """Draw a bar for what each kind has at the peak."""
    least = LEAST_SHARE * explanation.peak.bytes
    large = {kind: size / MIB for kind, size in explanation.kinds.items() if size >= least}
    kinds = pd.Series(large, name="MiB")
    sns.barplot(x=kinds, y=kinds.index, color="0.6", ax=axes)
    axes.bar_label(axes.containers[0], fmt="{:,.2f}", padding=2, size=7)  # type: ignore[arg-type]
    axes.set(title="at the peak", ylabel="", xlim=(0, 1.3 * kinds.max()))
    axes.grid(False)


def figures(results: Results, _machines: Iterable[str]) -> Iterator[FigureRequest]:
    """Yield a figure for each workload, scenario, strategy and batch that several frameworks
    explain.

    Of each framework it has the newest release.
    """
    explanations = sorted(select_newest(load_explanations(results.root)), key=find_question)
    for (workload, scenario, *_, size), group in groupby(explanations, find_question):
        moments = pd.concat(
            [tabulate_moments(explanation) for explanation in group], ignore_index=True
        )
        if moments["framework"].nunique() > 1:
            yield (
                f"step-{workload}-{scenario}{rows.format_size_suffix(size)}",
                draw_frameworks,
                moments,
            )


def find_question(explanation: Explanation) -> tuple[str, ...]:
    """Return the parts of a case that frameworks are compared at."""
    case = parse_case(explanation.case)
    return case.workload, case.scenario, case.strategy, str(case.batch), case.size


def tabulate_moments(explanation: Explanation) -> pd.DataFrame:
    """Return a row for each moment: where in the step it is, in %, and the MiB in use from then
    on.
    """
    case = parse_case(explanation.case)
    moments = pd.DataFrame(explanation.timeline)
    return pd.DataFrame(
        {
            "case": explanation.case,
            "workload": case.workload,
            "scenario": case.scenario,
            "strategy": case.strategy,
            "batch": case.batch,
            "framework": rows.NAMES[case.framework],
            "version": find_release(explanation),
            "at": 100 * moments["event"] / (explanation.timeline[-1].event + 1),
            "mib": moments["bytes"] / MIB,
            "phase": moments["phase"],
        }
    )


@page.apply_style
def draw_frameworks(moments: pd.DataFrame) -> Figure | None:
    """Draw the step of one case in several frameworks.

    `moments` has the rows of `tabulate_moments`.
    """
    panels = rows.order_by_catalog(moments).groupby("framework", observed=True, sort=True)
    count = panels.ngroups
    figure, grid = plt.subplots(1, count, figsize=(3.6 * count, 3.0), sharey=True, squeeze=False)
    peaks = []
    for axes, (framework, of_framework) in zip(grid.flat, panels):
        peaks.append(draw_panel(axes, thin_out(of_framework.sort_values("at", kind="stable"))))
        version = of_framework["version"].iloc[0].partition("==")[2]
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
    first = moments.iloc[0]
    question = (
        f"{first['workload']} {first['scenario']} {first['strategy']}, batch {first['batch']}"
    )
    return page.explain_figure(
        figure, f"{question}: a step peaks at {rows.join_words(peaks)}", [NOTE]
    )


def thin_out(moments: pd.DataFrame) -> pd.DataFrame:
    """Return the fullest moment in each half per cent of the step: a picture has no room for
    thousands.
    """
    fullest = moments.groupby((2 * moments["at"]).astype(int))["mib"].idxmax()
    return moments.loc[fullest]


def draw_panel(axes: Axes, moments: pd.DataFrame) -> str:
    """Draw one curve in the colours of the phases, and return its peak in words."""
    edges = [*moments["at"], 100]
    draw_phases(axes, edges, moments["mib"], moments["phase"])
    peak = moments.nlargest(1, "mib").iloc[0]
    place = (peak["at"], peak["mib"])
    axes.plot(*place, "v", color="black", markersize=4)
    axes.annotate(
        f"{peak['mib']:,.0f} MiB", place, (0, 5), textcoords="offset points", ha="center", size=8
    )
    axes.set(xlim=(0, 100), xlabel="% of the step's events")
    return f"{peak['mib']:,.0f} MiB in {peak['framework']} ({peak['phase']})"
