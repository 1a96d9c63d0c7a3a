"""Draw when in a step memory is full: one framework's step, or several side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import groupby

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from framebench.analysis import rows
from framebench.analysis.figures import FigureRequest, page
from framebench.analysis.rendering import MIB
from framebench.analysis.results import Results
from framebench.explain.record import Explanation
from framebench.explain.table import load_explanations, select_newest_version
from framebench.records.record_base import parse_case

COLOURS = {
    "forward": "#0173b2",
    "backward": "#de8f05",
    "optimizer": "#029e73",
}  # seaborn's `colorblind`
NOTE = (
    "Tensors and buffers in use over one steady step, by an account of every one of them. An event "
    "is another thing in each framework, so widths are shares of the events and no times."
)


def figures(results: Results, _machines: Iterable[str]) -> Iterator[FigureRequest]:
    """Yield a figure for each explained case that several frameworks have in common.

    A framework's case is that of its newest release.
    """
    explanations = select_newest_version(load_explanations(results.root))
    explanations = sorted(explanations, key=list_parts_but_framework)
    for parts, group in groupby(explanations, list_parts_but_framework):
        workload, scenario, strategy, batch, size = parts
        moments = tabulate_moments(group)
        if moments["framework"].nunique() > 1:
            suffix = rows.format_size_suffix(size)
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
        moments["framework"] = rows.PROPER_NAMES[case.framework]
        moments["version"] = explanation.framework_version
        tables.append(moments)
    return pd.concat(tables, ignore_index=True)


@page.apply_style
def draw_frameworks(moments: pd.DataFrame) -> Figure:
    """Draw the step of one case in one or several frameworks.

    `moments` has the rows of `tabulate_moments`.
    """
    panels = rows.order_by_catalog(moments).groupby("framework", observed=True, sort=True)
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
    first = next(rows.iterate_rows(moments))
    question = f"{first.workload} {first.scenario} {first.strategy}, batch {first.batch}"
    finding = f"{question}: a step peaks at {rows.join_words(peaks)}"
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
    peak = moments.nlargest(1, "mib").iloc[0]
    axes.plot(peak["at"], peak["mib"], "v", color="black", markersize=4)
    size = f"{peak['mib']:,.0f} MiB"
    axes.annotate(
        size,
        xy=(peak["at"], peak["mib"]),
        xytext=(0, 5),
        textcoords="offset points",
        ha="center",
        size=8,
    )
    axes.set(xlim=(0, 100), xlabel="% of the step's events")
    return f"{size} in {peak['framework']} ({peak['phase']})"
