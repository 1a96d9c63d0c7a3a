"""When in a step is memory full? The frameworks' explained steps of one case side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from framebench.analysis import rows
from framebench.analysis.comparison import MIB
from framebench.analysis.figures import Asked, page
from framebench.analysis.results import Results
from framebench.explain.record import Explanation
from framebench.explain.table import COLOURS, kept, newest, release
from framebench.records.record import parse_case

NOTE = (
    "Tensors and buffers in use over one steady step, by an account of every one of them. An event is another thing in each "
    "framework, so widths are shares of the events and no times."
)


def figures(results: Results, _machines: Iterable[str]) -> Iterator[Asked]:
    """One for each workload, scenario, strategy and batch that several frameworks explain, by their newest releases."""

    def place(explanation: Explanation) -> tuple[str, ...]:
        case = parse_case(explanation.case)
        return case.workload, case.scenario, case.strategy, str(case.batch), case.size

    for (workload, scenario, *_, size), several in groupby(sorted(newest(kept(results.root)), key=place), place):
        moments = pd.DataFrame([moment for explanation in several for moment in _moments(explanation)])
        if moments["framework"].nunique() > 1:
            yield f"step-{workload}-{scenario}{rows.size_suffix(size)}", over_time, moments


def _moments(explanation: Explanation) -> Iterator[dict[str, object]]:
    """A row for each event: where in the step it is, from 0 to 100, and what is in use from then on."""
    case, last = parse_case(explanation.case), explanation.timeline[-1][0] + 1
    about = {
        "case": explanation.case, "workload": case.workload, "scenario": case.scenario, "strategy": case.strategy,
        "batch": case.batch, "framework": rows.NAMES[case.framework], "version": release(explanation),
    }  # fmt: skip
    for event, size, phase in explanation.timeline:
        yield about | {"at": 100 * event / last, "mib": size / MIB, "phase": phase}


@page.styled
def over_time(moments: pd.DataFrame) -> Figure | None:
    """`moments`: the events of one case in several frameworks."""
    panels = rows.order_by_catalog(moments).groupby("framework", observed=True, sort=True)
    figure, places = plt.subplots(1, panels.ngroups, figsize=(3.6 * panels.ngroups, 3.0), sharey=True, squeeze=False)
    peaks = []
    for axes, (framework, mine) in zip(places.flat, panels):
        peaks.append(_panel(axes, _thinned(mine.sort_values("at", kind="stable"))))
        axes.set_title(f"{framework} {mine['version'].iloc[0].partition('==')[2]}", color=page.COLOURS[str(framework)])
    places.flat[0].set(ylabel="MiB in use", ylim=(0, 1.18 * moments["mib"].max()))
    handles, names = places.flat[0].get_legend_handles_labels()
    figure.tight_layout()
    figure.legend(handles, names, loc="upper center", bbox_to_anchor=(0.5, 0.01), ncols=len(names), frameon=False)
    first = moments.iloc[0]
    what = f"{first['workload']} {first['scenario']} {first['strategy']}, batch {first['batch']}"
    return page.explained(figure, f"{what}: a step peaks at {rows.join_words(peaks)}", [NOTE])


def _thinned(mine: pd.DataFrame) -> pd.DataFrame:
    """The fullest moment in each half per cent of the step: a picture has no room for thousands."""
    return mine.loc[mine.groupby((2 * mine["at"]).astype(int))["mib"].idxmax()]


def _panel(axes: Axes, mine: pd.DataFrame) -> str:
    """One curve in the colours of the phases; returns its peak in words."""
    edges = [*mine["at"], 100]
    for phase, colour in COLOURS.items():
        heights = mine["mib"].where(mine["phase"] == phase, 0)
        if heights.any():
            axes.stairs(heights, edges, fill=True, color=colour, label=phase)
    top = mine.nlargest(1, "mib").iloc[0]
    axes.plot(top["at"], top["mib"], "v", color="black", markersize=4)
    axes.annotate(f"{top['mib']:,.0f} MiB", (top["at"], top["mib"]), (0, 5), textcoords="offset points", ha="center", size=8)
    axes.set(xlim=(0, 100), xlabel="% of the step's events")
    return f"{top['mib']:,.0f} MiB in {top['framework']} ({top['phase']})"
