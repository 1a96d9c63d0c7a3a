"""Stacked horizontal bars, a panel for each framework and a row for each strategy; a row without numbers says why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Patch

from analysis.figures import page, rows
from analysis.tables import Line

THICK = 0.72


@dataclass(frozen=True)
class Bar:
    """One row of a panel: lengths and colours from left to right, and where a black tick stands, if anywhere."""

    stack: Sequence[tuple[float, str]]
    tick: float | None = None


def panels(
    body: Figure | SubFigure, names: list[str], bars: dict[str, tuple[str, list[Bar | str]]], unit: str, key: dict[str, str]
) -> None:
    """`bars`: of each framework the panel's title, and for each name a bar or what stands there instead; `key`: colours."""
    frames: Sequence[Axes] = body.subplots(1, len(bars), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (framework, (title, found)) in zip(frames, bars.items()):
        for i, bar in enumerate(found):
            draw(axes, i, bar)
        axes.set_title(title, color=page.COLOURS[framework])
        axes.set_xlabel(unit)
        page.plain(axes, "x")
    frames[0].set_yticks(range(len(names)), names)
    frames[0].set_ylim(len(names) - 0.4, -0.6)
    entries = [Patch(color=colour, label=text) for text, colour in key.items()]
    body.legend(handles=entries, loc="outside lower center", ncols=len(entries), frameon=False)


def draw(axes: Axes, place: int, bar: Bar | str) -> None:
    if isinstance(bar, str):
        axes.annotate(bar, (0, place), (3, 0), textcoords="offset points", va="center", size=6, color="0.55")
        return
    left = 0.0
    for length, colour in bar.stack:
        axes.barh(place, length, left=left, height=THICK, color=colour, linewidth=0)
        left += length
    if bar.tick is not None:
        axes.plot([bar.tick] * 2, [place - 0.4, place + 0.4], color="black", linewidth=1.3)


def instead(r: Line | None) -> str:
    """What stands in a row that has no numbers."""
    return "-" if r is None else rows.outcome(r)
