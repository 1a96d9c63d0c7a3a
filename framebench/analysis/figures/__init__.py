"""Figures from records: one function for each question, a table in, a figure out.

A table is what `framebench.load` makes, of one machine. The finding stands in the title, computed from the rows; where the
numbers come from stands below. What the rows cannot fill is not drawn.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from matplotlib.figure import Figure

from framebench import extensions
from framebench.analysis.figures.fronts import pareto
from framebench.analysis.figures.kept import once
from framebench.analysis.figures.page import COLOURS, MARKERS, finding_and_source, svg
from framebench.analysis.results import Results

__all__ = ["COLOURS", "MARKERS", "Picture", "draw_all", "pareto", "pictures", "processes", "save_all", "started", "svg"]

Question = Callable[[pd.DataFrame], Figure | None]


class Picture(NamedTuple):
    """A figure as text. `finding` is its title, `source` where its numbers come from."""

    name: str
    svg: str
    finding: str
    source: str


def questions(
    df: pd.DataFrame, results: Results | None, others: Iterable[str] = ()
) -> Iterator[tuple[str, Question, pd.DataFrame]]:
    """The name of each figure, what draws it, and from which rows, by all features. Versions that the machine has not measured
    are shown as `others` have. Raises ValueError."""
    machines = sorted(set(df["machine"]))
    if len(machines) > 1:
        raise ValueError(f"figures show one machine, and here are rows of {', '.join(machines)}; choose one of them")
    for of_rows in extensions.every("questions"):
        yield from of_rows(df)
    for more in extensions.every("figures") if results and machines else ():
        yield from more(results, (*machines, *others))


def draw_all(df: pd.DataFrame, results: Results | None = None) -> dict[str, Figure]:
    """Every figure that the rows can fill, by name.

    `df` is what `framebench.load` makes; `results` has searches and all versions' records, without which what they
    show is left out.
    Raises ValueError if there are rows of more than one machine.
    """
    drawn = {name: draw(group) for name, draw, group in questions(df, results)}
    return {name: figure for name, figure in drawn.items() if figure}


def pictures(df: pd.DataFrame, results: Results | None = None, others: Iterable[str] = ()) -> list[Picture]:
    """The same as text."""
    with processes() as pool:
        return list(started(pool, df, results, others))


def processes() -> ProcessPoolExecutor:
    """As many as this process may use processors, since a figure takes half a second."""
    return ProcessPoolExecutor(len(os.sched_getaffinity(0)))


def started(
    pool: ProcessPoolExecutor, df: pd.DataFrame, results: Results | None = None, others: Iterable[str] = ()
) -> Iterator[Picture]:
    """The figures as text, which these processes draw from now on; whoever asks for one waits until it is there."""
    return filter(None, pool.map(written, *zip(*questions(df, results, others))))


def written(name: str, draw: Question, df: pd.DataFrame) -> Picture | None:
    texts = once(_drawn, name, draw, df)
    return Picture(*texts) if texts else None


def _drawn(name: str, draw: Question, df: pd.DataFrame) -> Picture | None:
    figure = draw(df)
    return Picture(name, svg(figure), *finding_and_source(figure)) if figure else None


def save_all(df: pd.DataFrame, folder: Path, results: Results | None = None) -> list[Path]:
    """Write every figure as `folder`/<name>.svg, the same bytes for the same rows, and those of versions that only another
    machine has measured. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    others = results.machines if results else ()
    made = {folder / f"{picture.name}.svg": picture.svg for picture in pictures(df, results, others)}
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    return list(made)
