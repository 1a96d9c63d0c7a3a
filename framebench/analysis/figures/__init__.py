"""Draw figures from records: a function for each question makes a figure from a table.

A table is what `framebench.load` returns, of one machine. The title of a figure states the finding,
computed from the rows; the lines below it say where the numbers come from. A figure that the rows
cannot fill is not drawn.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import pandas as pd
from matplotlib.figure import Figure

from framebench.analysis.figures.page import read_finding_and_source, render_svg

__all__ = ["FigureRequest", "Picture", "render_all", "render_svg", "start_drawing_pool"]

Question = Callable[[pd.DataFrame], Figure | None]
# name of the figure, the function that draws it, and its rows
FigureRequest = tuple[str, Question, pd.DataFrame]


class Picture(NamedTuple):
    """A figure as SVG, with its title (`finding`) and where its numbers come from (`source`)."""

    name: str
    svg: str
    finding: str
    source: str


def start_drawing_pool() -> ProcessPoolExecutor:
    """Return a pool with a process for each processor: a figure takes about a second."""
    return ProcessPoolExecutor(len(os.sched_getaffinity(0)))


def render_all(pool: ProcessPoolExecutor, requests: Iterable[FigureRequest]) -> Iterator[Picture]:
    """Start drawing, and yield in order the figures that have enough rows."""
    return filter(None, pool.map(render, *zip(*requests)))


def render(name: str, draw: Question, df: pd.DataFrame) -> Picture | None:
    """Return the figure as SVG, or None if the rows cannot fill it."""
    figure = draw(df)
    if figure is None:
        return None
    finding, source = read_finding_and_source(figure)
    return Picture(name, render_svg(figure), finding, source)
