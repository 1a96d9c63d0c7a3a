"""Figures from records: one function for each question, a table in, figures out.

A table is what `analysis.load` makes, of one machine. The finding stands in the title, computed from the rows; where the
numbers come from stands below. What the rows cannot fill is not drawn.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from matplotlib.figure import Figure

from analysis import frames, tables
from analysis.figures.batches import curves, largest
from analysis.figures.fronts import pareto
from analysis.figures.page import png, said, svg
from analysis.figures.peaks import parts, train_eval
from analysis.figures.steps import first_steps, shares
from analysis.figures.strategies import heat, support

__all__ = [
    "QUESTIONS", "Picture", "curves", "draw_all", "first_steps", "heat", "largest", "pareto", "parts", "pictures", "png",
    "save_all", "shares", "support", "svg", "train_eval",
]  # fmt: skip

Drawn = Iterator[tuple[str, Figure]]
QUESTIONS: tuple[Callable[[pd.DataFrame], Drawn], ...] = (
    pareto, heat, curves, parts, train_eval, first_steps, shares, support,
)  # fmt: skip


class Picture(NamedTuple):
    """A figure as text. `finding` is its title, `source` where its numbers come from."""

    name: str
    svg: str
    finding: str
    source: str


def draw_all(table: pd.DataFrame, results: Path | None = None) -> dict[str, Figure]:
    """Every figure that the rows can fill, by name, such as `pareto-transformer-train`.

    `table` holds the rows of one machine; `results` is the folder that has `fits/`, without which those are left out.
    Raises ValueError if there are rows of more than one machine.
    """
    return {name: drawn for draw in drawings(table, results) for name, drawn in draw()}


def pictures(table: pd.DataFrame, results: Path | None = None) -> list[Picture]:
    """The same as text; drawn by as many processes as this one may use processors, since a figure takes half a second."""
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return [picture for several in pool.map(written, drawings(table, results)) for picture in several]


def drawings(table: pd.DataFrame, results: Path | None) -> list[Callable[[], Drawn]]:
    """What draws the figures, a function for each question. Raises ValueError."""
    machines = sorted(set(table["machine"]))
    if len(machines) > 1:
        raise ValueError(f"figures show one machine, and here are rows of {', '.join(machines)}; choose one of them")
    settled = tables.used(frames.current(table))
    return [*(partial(question, settled) for question in QUESTIONS), *(partial(largest, m, results) for m in machines)]


def written(draw: Callable[[], Drawn]) -> list[Picture]:
    return [Picture(name, svg(drawn), *said(drawn)) for name, drawn in draw()]


def save_all(table: pd.DataFrame, folder: Path, results: Path | None = None) -> list[Path]:
    """Write every figure as `folder`/<name>.svg, the same bytes for the same rows. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    made = {folder / f"{picture.name}.svg": picture.svg for picture in pictures(table, results)}
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    return list(made)
