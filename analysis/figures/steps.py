"""What does the first step cost, when has it paid, and what is lost beside the work of a step?"""

from __future__ import annotations

import math
from collections.abc import Iterator

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from analysis.figures import bars, page, rows
from analysis.figures.bars import Bar
from analysis.statistics import BETWEEN_PROCESSES
from analysis.tables import Line, groups, missing

ENOUGH = 3  # strategies beside the baseline, for a figure of its own
FIRST_NOTE = (
    "First step: the first of a process, with the compilation that it triggers. "
    "Break-even: steps until a first step that is longer than the baseline's has paid by shorter ones; arrow: never. Without "
    "a mark on the right: the first step is no longer than the baseline's, or times differ no more than those of two "
    f"processes of one case ({BETWEEN_PROCESSES:.0%})."
)


def first_steps(table: pd.DataFrame) -> Iterator[tuple[str, Figure]]:
    """A figure for each workload, scenario and size with enough strategies: seconds left, steps until they have paid right."""
    for (workload, scenario, size), found in groups(table.to_dict("records"), "workload", "scenario", "size"):
        group = rows.one_batch(found)
        shown = [r for r in group if rows.usable(r) and not missing(r["first_step_s"])]
        if len({r["strategy"] for r in shown}) > ENOUGH:
            yield f"first-step-{workload}-{scenario}{rows.suffix(size)}", first_figure(group, shown)


@page.styled
def first_figure(group: list[Line], shown: list[Line]) -> Figure:
    order = rows.in_table_order(shown)
    notes = rows.footer(group, f"{FIRST_NOTE} {rows.batches(shown)}")
    drawn, body = page.page(first_title(shown), notes, 9.0, 0.9 + 0.19 * len(order))
    seconds, steps = body.subplots(1, 2, sharey=True)
    for framework in rows.frameworks(shown):
        at = {r["strategy"]: r for r in rows.of(shown, framework)}
        dots(seconds, order, {s: r["first_step_s"] for s, r in at.items()}, framework)
        dots(steps, order, {s: r["break_even_steps"] for s, r in at.items() if not missing(r["break_even_steps"])}, framework)
    logarithmic(seconds, order, "first step, seconds")
    logarithmic(steps, order, "break-even, steps")
    seconds.set_yticks(range(len(order)), order)
    entries = [page.key("o", page.COLOURS[f], page.NAMES[f]) for f in rows.frameworks(shown)]
    entries.append(page.key(">", label="never pays", hollow=True))
    body.legend(handles=entries, loc="outside lower center", ncols=len(entries), frameon=False)
    return drawn


def dots(axes: Axes, order: list[str], values: dict[str, float], framework: str) -> None:
    """A dot for each strategy, frameworks a little apart; what is infinite is an arrow at the edge."""
    shift = {"torch": -0.22, "jax": 0.0, "jittor": 0.22}[framework]
    colour = page.COLOURS[framework]
    known = [(v, order.index(s) + shift) for s, v in values.items() if math.isfinite(v)]
    never = [order.index(s) + shift for s, v in values.items() if math.isinf(v)]
    axes.plot(
        [x for x, _ in known],
        [y for _, y in known],
        "o",
        color=colour,
        markersize=4.5,
        markeredgecolor="white",
        markeredgewidth=0.4,
    )
    edge = axes.get_yaxis_transform()
    axes.plot([0.985] * len(never), never, ">", color=colour, markersize=4.5, markerfacecolor="none", transform=edge)


def logarithmic(axes: Axes, order: list[str], label: str) -> None:
    if not any(len(line.get_xdata()) for line in axes.lines if line.get_transform() == axes.transData):  # type: ignore[arg-type]
        axes.set_xlim(1, 10)  # every value is infinite, or there is none
    axes.set(xscale="log", xlabel=label, ylim=(len(order) - 0.4, -0.6))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.margins(x=0.08)
    page.plain(axes)
    for i in range(0, len(order), 2):
        axes.axhspan(i - 0.5, i + 0.5, color="0.97", zorder=0)


def first_title(shown: list[Line]) -> str:
    """The baseline's first step in steady steps, and how many longer first steps never pay."""
    base = {
        r["framework"]: r["first_step_s"] / r["step_time_s"]
        for r in shown
        if rows.baseline(r) and not missing(r["step_time_s"])
    }
    cost = rows.listed([f"{steady:,.1f} in {page.NAMES[f]}" for f, steady in base.items()])
    longer = [r["break_even_steps"] for r in shown if not missing(r["break_even_steps"])]
    never = sum(math.isinf(n) for n in longer)
    head = f"{shown[0]['workload']} {shown[0]['scenario']}: "
    head += (
        f"the first {next(r['strategy'] for r in shown if rows.baseline(r))} step takes as long as later ones times {cost}; "
        if base
        else ""
    )
    return f"{head}of {len(longer)} strategies with a longer one, {never} never make up for it"


WORTH = 0.01
SHARES = {"wait_share": ("waiting for input", "#cc78bc"), "collector_share": ("Python's collector", "#ca9161")}
SHARES_NOTE = "Shares of the wall-clock time of a step. Shown are strategies with more than 1 % of either in some framework."


def shares(table: pd.DataFrame) -> Iterator[tuple[str, Figure]]:
    """One figure for each size: what of a step goes to waiting for input, and to Python's collector."""
    for (size,), found in groups(table.to_dict("records"), "size"):
        lost = [r for r in rows_at_one_batch(found) if any(part(r, c) > WORTH for c in SHARES)]
        if lost:
            places = {place(r) for r in lost}
            yield f"shares{rows.suffix(size)}", shares_figure([r for r in rows_at_one_batch(found) if place(r) in places])


def rows_at_one_batch(found: list[Line]) -> list[Line]:
    return [r for _, group in groups(found, "workload", "scenario") for r in rows.one_batch(group)]


def place(r: Line) -> tuple[str, str, str]:
    return r["workload"], r["scenario"], r["strategy"]


def part(r: Line, column: str) -> float:
    """0 where it was not measured: the step did not wait, or ran without the clock on the collector."""
    return 0.0 if not rows.usable(r) or missing(r[column]) else float(r[column])


@page.styled
def shares_figure(group: list[Line]) -> Figure:
    order = [(w, s, n) for (w, s), g in groups(group, "workload", "scenario") for n in rows.in_table_order(g)]
    frameworks = rows.frameworks(group)
    size = f"{SHARES_NOTE} Size {group[0]['size']}."
    drawn, body = page.page(
        shares_title(group), rows.footer(group, size), 2.8 + 2.3 * max(2, len(frameworks)), 0.8 + 0.19 * len(order)
    )
    panels = {}
    for framework in frameworks:
        by = {place(r): r for r in rows.of(group, framework)}
        panels[framework] = page.NAMES[framework], [shares_bar(by.get(p)) for p in order]
    bars.panels(body, [" ".join(p) for p in order], panels, "% of the step", dict(SHARES.values()))
    return drawn


def shares_bar(r: Line | None) -> Bar | str:
    if r is None or not rows.usable(r):
        return bars.instead(r)
    return Bar([(part(r, column) * 100, colour) for column, (_, colour) in SHARES.items()])


def shares_title(group: list[Line]) -> str:
    """Where each of the two is most."""
    said = []
    for column, (text, _) in SHARES.items():
        most = max(group, key=lambda r: part(r, column))
        if part(most, column) > WORTH:
            where = f"{page.NAMES[most['framework']]}, {' '.join(place(most))}"
            said.append(f"{text} takes up to {part(most, column) * 100:.0f} % of a step ({where})")
    text = "; ".join(said)
    return text[:1].upper() + text[1:]
