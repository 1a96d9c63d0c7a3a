"""What does each strategy do to peak and step time, in each framework? And which strategies exist?"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from analysis.figures import page, rows
from analysis.statistics import BETWEEN_PROCESSES
from analysis.tables import APART, Line, groups, missing
from framebench.suite.registry import SCENARIOS, find, in_use
from framebench.suite.strategy import FRAMEWORKS

ROW_IN = 0.17  # height of a strategy's row in inches
WORTH = 0.05  # a change that a title counts
RANGE = math.log2(3)  # where the colours end: a third, and three times
HEAT = (
    "Ratios to the baseline of the same framework and batch, each by the framework's own instrument: compare down a column, "
    "not across. Violet: less, orange: more. Italic: another model. Two processes of one case differ by "
    f"{BETWEEN_PROCESSES:.0%} in step time: less may be chance; {APART}."
)
QUANTITIES = {"peak_ratio": "peak memory / baseline's", "time_ratio": "step time / baseline's"}


def heat(table: pd.DataFrame) -> Iterator[tuple[str, Figure]]:
    """A map for each workload, scenario and size: strategies down, frameworks across, once for peaks and once for times."""
    for (workload, scenario, size), found in groups(table.to_dict("records"), "workload", "scenario", "size"):
        group = rows.one_batch(found)
        if any(rows.usable(r) and not rows.baseline(r) for r in group):
            yield f"strategies-{workload}-{scenario}{rows.suffix(size)}", heat_figure(group)


@page.styled
def heat_figure(group: list[Line]) -> Figure:
    shown = rows.worth_a_row(group)
    frameworks = rows.frameworks(shown)
    order = rows.in_table_order(shown)
    notes = rows.footer(group, f"{HEAT} {rows.batches(shown)}")
    height = 0.75 + ROW_IN * len(order)
    drawn, body = page.page(heat_title(group), notes, max(7.0, 3.0 + 1.35 * len(frameworks) * 1.6), height)
    panels = body.subplots(1, 2, sharey=True)
    for axes, (column, text) in zip(panels, QUANTITIES.items()):
        heat_panel(axes, shown, order, frameworks, column)
        axes.set_title(text)
    for label, name in zip(panels[0].get_yticklabels(), order):
        label.set_style("italic" if another_model(shown[0]["scenario"], name) else "normal")
    return drawn


def another_model(scenario: str, strategy: str) -> bool:
    return not find(scenario, strategy).same_loss


def heat_panel(axes: Axes, group: list[Line], order: list[str], frameworks: list[str], column: str) -> None:
    """Colours on a logarithmic scale around 1; what has no number says why."""
    by = {(r["strategy"], r["framework"]): r for r in group}
    values = np.array([[ratio(by.get((s, f)), column) for f in frameworks] for s in order])
    norm = TwoSlopeNorm(0, -RANGE, RANGE)
    axes.imshow(np.log2(values), cmap="PuOr_r", norm=norm, aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        text = word(by.get((order[i], frameworks[j])), value)
        dark = abs(np.log2(value)) > 0.55 * RANGE if value == value else False
        colour = "white" if dark else "0.15" if value == value else "0.55"
        axes.text(j, i, text, ha="center", va="center", size=6.5, color=colour)
    axes.set_xticks(range(len(frameworks)), [page.NAMES[f] for f in frameworks])
    axes.set_yticks(range(len(order)), order)
    axes.xaxis.tick_top()
    for tick, framework in zip(axes.get_xticklabels(), frameworks):
        tick.set(color=page.COLOURS[framework], weight="bold")
    page.unframed(axes, len(frameworks), len(order))


def ratio(r: Line | None, column: str) -> float:
    """NaN where there is no number to show."""
    return float("nan") if r is None or not rows.usable(r) or missing(r[column]) else float(r[column])


def word(r: Line | None, value: float) -> str:
    if value == value:
        return f"{value:.2f}" if value < 10 else f"{value:.0f}"
    return "-" if r is None else rows.outcome(r).replace("ok", "-") if not rows.usable(r) else "-"


def heat_title(group: list[Line]) -> str:
    """How many strategies save memory, and how many of them cost nothing."""
    parts = []
    for framework in rows.frameworks(group):
        found = [r for r in rows.of(group, framework) if rows.usable(r) and not rows.baseline(r) and rows.same_model(r)]
        saving = [r for r in found if not missing(r["peak_ratio"]) and r["peak_ratio"] < 1 - WORTH]
        free = [r for r in saving if not missing(r["time_ratio"]) and r["time_ratio"] < 1 + BETWEEN_PROCESSES]
        if found:
            cheap = f"{len(free)} with steps at most {BETWEEN_PROCESSES * 100:.0f} % longer"
            parts.append(f"{len(saving)} of {len(found)} in {page.NAMES[framework]} ({cheap})")
    head = f"{group[0]['workload']} {group[0]['scenario']}, strategies that save more than {WORTH * 100:.0f} % of the peak: "
    return head + (rows.listed(parts) or "none was measured")


KINDS = {"native": "#0173b2", "emulated": "#56b4e9", "alwayson": "#949494", "unsupported": "#f0f0f0"}
WORDS = {
    "native": "the framework has it",
    "emulated": "written by us",
    "alwayson": "always so",
    "unsupported": "cannot be done",
}
FAILED = ("not proven", "wrong", "oom", "crashed", "timeout")


def support(table: pd.DataFrame) -> Iterator[tuple[str, Figure]]:
    """Every strategy of every scenario in every framework, and which of them this machine has measured."""
    yield "support", support_figure(table)


@page.styled
def support_figure(table: pd.DataFrame) -> Figure:
    first, *others = SCENARIOS  # training has as many strategies as all the others together
    left, right = len(in_use(first)), sum(len(in_use(s)) + 2 for s in others)
    drawn, body = page.page(support_title(), support_notes(table), 8.6, 0.5 + ROW_IN * max(left, right))
    columns = body.add_gridspec(1, 2)
    panels = {first: body.add_subplot(columns[0])}
    below = columns[1].subgridspec(len(others), 1, height_ratios=[len(in_use(s)) for s in others])
    panels |= {s: body.add_subplot(below[i]) for i, s in enumerate(others)}
    measured = outcomes(table)
    for scenario, axes in panels.items():
        support_panel(axes, scenario, measured)
    entries: list[Artist] = [Patch(color=colour, label=WORDS[kind]) for kind, colour in KINDS.items()]
    seen, failed = page.key("o", "white", "measured here, effect seen"), page.key("X", "black", "measured here, and failed")
    seen.set_markeredgecolor("0.3")
    entries += [seen, failed]
    body.legend(handles=entries, loc="outside lower center", ncols=3, frameon=False)
    return drawn


def outcomes(table: pd.DataFrame) -> dict[tuple[str, str, str], str]:
    """What came of each scenario, strategy and framework: `ok` if any of its cases has numbers."""
    found: dict[tuple[str, str, str], str] = {}
    for r in table.to_dict("records"):
        place = r["scenario"], r["strategy"], r["framework"]
        if rows.usable(r):
            found[place] = "ok"
        elif rows.outcome(r) in FAILED:
            found.setdefault(place, rows.outcome(r))
    return found


def support_panel(axes: Axes, scenario: str, measured: dict[tuple[str, str, str], str]) -> None:
    strategies, kinds = in_use(scenario), list(KINDS)
    cells = [[find(scenario, s).cells[f] for f in FRAMEWORKS] for s in strategies]
    colours = np.array([[kinds.index(cell.kind.split()[0]) for cell in line] for line in cells])
    axes.imshow(colours, cmap=ListedColormap(list(KINDS.values())), vmin=-0.5, vmax=len(kinds) - 0.5, aspect="auto")
    for (i, j), _ in np.ndenumerate(colours):
        if cells[i][j].gpu:
            axes.text(j, i, "GPU", ha="center", va="center", size=5.5, color="white", weight="bold")
        if seen := measured.get((scenario, strategies[i], FRAMEWORKS[j])):
            marker, face = ("o", "white") if seen == "ok" else ("X", "black")
            axes.scatter(j, i, marker=marker, s=14, facecolors=face, edgecolors="0.3", linewidths=0.6)
    axes.set_title(scenario)
    axes.set_yticks(range(len(strategies)), strategies, size=6.5)
    axes.set_xticks(range(len(FRAMEWORKS)), [page.NAMES[f] for f in FRAMEWORKS], size=6.5)
    page.unframed(axes, 1, len(strategies))


def support_title() -> str:
    """How many strategies each framework can do, those that it always does among them."""
    every = [find(scenario, name) for scenario in SCENARIOS for name in in_use(scenario)]
    can = [f"{page.NAMES[f]} can do {sum(s.cells[f].supported for s in every)}" for f in FRAMEWORKS]
    common = sum(all(s.cells[f].supported for f in FRAMEWORKS) for s in every)
    return f"Of {len(every)} strategies in {len(SCENARIOS)} scenarios {rows.listed(can)}; {common} exist in all"


def support_notes(table: pd.DataFrame) -> list[str]:
    note = "From framebench/suite/registry.py; docs/strategies.md has the reasons. A strategy of two scenarios counts twice. "
    if table.empty:
        return [note + "Nothing was measured."]
    found = table.to_dict("records")
    return [note + "The dots are records of this machine, of any workload.", *rows.footer([r for r in found if rows.usable(r)])]
