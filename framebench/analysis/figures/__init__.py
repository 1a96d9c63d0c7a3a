"""Figures from records: one function for each question, a table in, a figure out.

A table is what `framebench.load` returns, of one machine. The title of a figure states the finding, computed from the rows;
the lines below it say where the numbers come from. A figure that the rows cannot fill is not drawn.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from matplotlib.figure import Figure

from framebench import extensions
from framebench.analysis.figures.fronts import pareto
from framebench.analysis.figures.page import COLOURS, MARKERS, finding_and_source, svg
from framebench.analysis.results import Results

__all__ = [
    "COLOURS",
    "MARKERS",
    "Asked",
    "Picture",
    "draw_all",
    "drawing_pool",
    "pareto",
    "questions",
    "render_all",
    "save",
    "svg",
]

Question = Callable[[pd.DataFrame], Figure | None]
Asked = tuple[str, Question, pd.DataFrame]  # name of the figure, the function that draws it, and its rows


class Picture(NamedTuple):
    """A figure as SVG. `finding` is its title, `source` says where its numbers come from."""

    name: str
    svg: str
    finding: str
    source: str


def questions(df: pd.DataFrame, results: Results | None, others: Iterable[str] = ()) -> Iterator[Asked]:
    """Yield the figures of all features.

    Releases that the machine has not measured are shown as the machines in `others` measured them.
    Raises ValueError if there are rows of more than one machine.
    """
    machines = sorted(set(df["machine"]))
    if len(machines) > 1:
        raise ValueError(f"figures show one machine, and here are rows of {', '.join(machines)}; choose one of them")
    for of_rows in extensions.every("questions"):
        yield from of_rows(df)
    if results and machines:
        for of_results in extensions.every("figures"):
            yield from of_results(results, (*machines, *others))


def draw_all(df: pd.DataFrame, results: Results | None = None) -> dict[str, Figure]:
    """Return every figure that the rows can fill, by name.

    `df` is what `framebench.load` returns. `results` has the searches and the records of all releases, without which figures
    of those are left out. Raises ValueError if there are rows of more than one machine.
    """
    drawn = {}
    for name, draw, rows in questions(df, results):
        figure = draw(rows)
        if figure is not None:
            drawn[name] = figure
    return drawn


def drawing_pool() -> ProcessPoolExecutor:
    """Return a pool with a process for each processor that may be used: a figure takes about a second."""
    return ProcessPoolExecutor(len(os.sched_getaffinity(0)))


def render_all(pool: ProcessPoolExecutor, asked: Iterable[Asked]) -> Iterator[Picture]:
    """Start drawing the figures now, and yield each that its rows can fill as soon as it is its turn."""
    return filter(None, pool.map(render, *zip(*asked)))


def render(name: str, draw: Question, df: pd.DataFrame) -> Picture | None:
    """Return the figure as SVG; None if the rows cannot fill it."""
    figure = draw(df)
    if figure is None:
        return None
    finding, source = finding_and_source(figure)
    return Picture(name, svg(figure), finding, source)


def save(df: pd.DataFrame, folder: Path, results: Results | None = None, pattern: str = "*") -> list[Path]:
    """Write the figures whose names match `pattern` as `folder`/<name>.svg, and return the paths.

    The same rows give the same bytes. Figures of releases may be of a machine other than that of `df`.
    Raises OSError, and ValueError if no figure has such a name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    every = list(questions(df, results, results.machines if results else ()))
    asked = [one for one in every if fnmatchcase(one[0], pattern)]
    if every and not asked:
        raise ValueError(f"no figure {pattern!r}; there are: {', '.join(name for name, *_ in every)}, and all")
    paths = []
    with drawing_pool() as pool:
        for picture in render_all(pool, asked):
            path = folder / f"{picture.name}.svg"
            path.write_text(picture.svg, encoding="utf-8")
            paths.append(path)
    return paths
