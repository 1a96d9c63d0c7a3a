"""What does a strategy save, and what does it cost? Peak against throughput, both as ratios to the framework's own baseline."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from analysis.figures import labels, page, rows
from analysis.figures.rows import listed
from analysis.tables import APART, Line, groups, missing
from framebench.records.record import case_of
from framebench.suite.registry import BASELINES

STAIRS = 12  # points along one stair that labels keep clear of
TICKS = 8  # numbers that fit below a panel
SAVES = 0.97  # a peak ratio above this is no saving worth a title
NOTE = (
    "Up and left is better. Each framework is compared with its own baseline (ring) at the same batch, by its own instrument. "
    "Lines: the front, for every peak the highest throughput. Hollow: another model, which is not on the front. One run of "
    "each case: differences of a few percent in time may be noise."
)


def pareto(table: pd.DataFrame) -> Iterator[tuple[str, Figure]]:
    """A figure for each workload, scenario and size, with a panel for each framework."""
    for (workload, scenario, size), found in groups(table.to_dict("records"), "workload", "scenario", "size"):
        group = rows.one_batch(found)
        points = [r for r in group if drawable(r)]
        if any(not rows.baseline(r) for r in points):
            yield f"pareto-{workload}-{scenario}{rows.suffix(size)}", figure(group, points)


def drawable(r: Line) -> bool:
    return rows.usable(r) and not missing(r["peak_ratio"]) and not missing(r["time_ratio"])


def xy(r: Line) -> tuple[float, float]:
    """Peak and throughput over the baseline's."""
    return r["peak_ratio"], 1 / r["time_ratio"]


def front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Places of the points that no other beats: none has a lower x and no lower y, or a higher y and no higher x. By x."""
    order = sorted(range(len(points)), key=lambda i: (points[i][0], -points[i][1]))
    found: list[int] = []
    for i in order:
        if not found or points[i][1] > points[found[-1]][1] or points[i] == points[found[-1]]:
            found.append(i)
    return found


def on_front(points: list[Line]) -> list[Line]:
    """The rows of the front: other models compete with none."""
    same = [r for r in points if rows.same_model(r)]
    return [same[i] for i in front([xy(r) for r in same])]


@page.styled
def figure(group: list[Line], points: list[Line]) -> Figure:
    frameworks = rows.frameworks(points)
    undrawn = [f"{r['framework']} {r['strategy']}" for r in group if rows.usable(r) and missing(r["time_ratio"])]
    apart = f"Not drawn, as {APART}: {rows.shortened(undrawn)}." if undrawn else ""
    notes = rows.footer(group, f"{NOTE} {rows.batches(points)}", apart)
    drawn, body = page.page(title(points, bool(undrawn)), notes, 1.6 + 3.1 * max(2, len(frameworks)), 3.7)
    panels = body.subplots(1, len(frameworks), sharex=True, sharey=True, squeeze=False)[0]
    for axes, framework in zip(panels, frameworks):
        panel(axes, rows.of(points, framework), page.COLOURS[framework])
        axes.set(title=rows.heading(framework, points), xlabel="peak memory / baseline's")
    panels[0].set_ylabel("throughput / baseline's")
    legend(body, points)
    ticks(panels[0])  # the panels share their axes
    drawn.draw_without_rendering()  # labels need to know where the panels lie
    for axes, framework in zip(panels, frameworks):
        name_front(axes, rows.of(points, framework))
    return drawn


def panel(axes: Axes, points: list[Line], colour: str) -> None:
    for r in points:
        hollow = not rows.same_model(r)
        style: dict[str, Any] = {
            "facecolors": "none" if hollow else colour,
            "edgecolors": colour if hollow else "white",
            "linewidths": 0.9,
        }
        size = 75 if shape(r) in "*PX" else 34
        if rows.baseline(r):
            axes.scatter(*xy(r), s=90, facecolors="none", edgecolors="black", linewidths=1.4, zorder=4)
        else:
            axes.scatter(*xy(r), marker=shape(r), s=size, zorder=3, **style)
    best = [xy(r) for r in on_front(points)]
    axes.step(*zip(*best), where="post", color=colour, linewidth=1.2, alpha=0.7, zorder=2)
    axes.axvline(1, color="0.75", linewidth=0.8, zorder=1)
    axes.axhline(1, color="0.75", linewidth=0.8, zorder=1)
    axes.set(xscale="log", yscale="log")
    axes.margins(0.14)
    page.plain(axes)


def ticks(axes: Axes) -> None:
    """Plain ratios at halves of an octave, or at as many whole octaves as leave room for the numbers."""
    for axis in (axes.xaxis, axes.yaxis):
        low, high = np.log2(axis.get_view_interval())
        step = 0.5 if high - low <= TICKS / 2 else math.ceil((high - low) / TICKS)
        places = range(math.ceil(low / step), math.floor(high / step) + 1)
        axis.set_major_locator(FixedLocator([2.0 ** (step * place) for place in places]))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.2g}"))
        axis.set_minor_locator(NullLocator())


def name_front(axes: Axes, points: list[Line]) -> None:
    named = [r for r in on_front(points) if not rows.baseline(r)]
    best = [xy(r) for r in named]
    others = [xy(r) for r in points if r not in named] + stairs([xy(r) for r in on_front(points)])
    labels.place(axes, best, [r["strategy"] for r in named], others, size=6.5, color="0.15", zorder=6)


def stairs(best: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points along the line of the front, which no label should cover."""
    found = []
    for (x0, y0), (x1, y1) in zip(best, best[1:]):
        found += [(x, y0) for x in np.geomspace(x0, x1, STAIRS)] + [(x1, y) for y in np.geomspace(y0, y1, STAIRS)]
    return found


def shape(r: Line) -> str:
    return page.SHAPES.get(case_of(r["case"]).plan.axis, page.OTHER)


def legend(body: SubFigure, points: list[Line]) -> None:
    present = {shape(r) for r in points if not rows.baseline(r)}
    known = {**{marker: axis for axis, marker in page.SHAPES.items()}, page.OTHER: "other settings"}
    ring: list[Line2D] = [page.key("o", "black", f"baseline: {BASELINES[points[0]['scenario']]}", hollow=True, size=8)]
    entries = ring + [page.key(marker, label=text) for marker, text in known.items() if marker in present]
    body.legend(handles=entries, loc="outside right upper", frameon=False, title="what the strategy changes", alignment="left")


def title(points: list[Line], partly: bool) -> str:
    """The least memory that each framework's front reaches, and what it costs; `partly`: some cases are not drawn."""
    parts = []
    for framework in rows.frameworks(points):
        least = on_front(rows.of(points, framework))[0]
        peak, speed = xy(least)
        saves = f"{least['strategy']} ({rows.times(peak)} the peak at {rows.times(speed)} the throughput)"
        parts.append(f"in {page.NAMES[framework]} {saves if peak < SAVES else 'no strategy saves'}")
    which = "least memory of what is drawn" if partly else "least memory"
    return f"{points[0]['workload']} {points[0]['scenario']}, {which}: {listed(parts)}"
