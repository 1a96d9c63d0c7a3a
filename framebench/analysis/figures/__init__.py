"""Figures from records: one function for each question, a table in, a figure out.

A table is what `framebench.load` makes, of one machine. The finding stands in the title, computed from the rows; where the
numbers come from stands below. What the rows cannot fill is not drawn.
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
from framebench.analysis.figures.kept import once
from framebench.analysis.figures.page import COLOURS, MARKERS, finding_and_source, svg
from framebench.analysis.results import Results

__all__ = ["COLOURS", "MARKERS", "Asked", "Picture", "draw_all", "pareto", "processes", "questions", "save", "started", "svg"]

Question = Callable[[pd.DataFrame], Figure | None]
Asked = tuple[str, Question, pd.DataFrame]  # its name, what draws it, from which rows


class Picture(NamedTuple):
    """A figure as text. `finding` is its title, `source` where its numbers come from."""

    name: str
    svg: str
    finding: str
    source: str


def questions(df: pd.DataFrame, results: Results | None, others: Iterable[str] = ()) -> Iterator[Asked]:
    """By all features. Versions that the machine has not measured are shown as `others` have. Raises ValueError."""
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
    show is left out. Raises ValueError if there are rows of more than one machine.
    """
    drawn = {name: draw(group) for name, draw, group in questions(df, results)}
    return {name: figure for name, figure in drawn.items() if figure}


def processes() -> ProcessPoolExecutor:
    """As many as this process may use processors, since a figure takes half a second."""
    return ProcessPoolExecutor(len(os.sched_getaffinity(0)))


def started(pool: ProcessPoolExecutor, asked: Iterable[Asked]) -> Iterator[Picture]:
    """The figures as text, which these processes draw from now on; whoever asks for one waits until it is there."""
    return filter(None, pool.map(written, *zip(*asked)))


def written(name: str, draw: Question, df: pd.DataFrame) -> Picture | None:
    texts = once(_drawn, name, draw, df)
    return Picture(*texts) if texts else None


def _drawn(name: str, draw: Question, df: pd.DataFrame) -> Picture | None:
    figure = draw(df)
    return Picture(name, svg(figure), *finding_and_source(figure)) if figure else None


def save(df: pd.DataFrame, folder: Path, results: Results | None = None, pattern: str = "*") -> list[Path]:
    """Write the figures whose names match `pattern` as `folder`/<name>.svg, the same bytes for the same rows, and those of
    versions that only another machine has measured. Raises OSError, and ValueError where no figure has such a name."""
    folder.mkdir(parents=True, exist_ok=True)
    asked = list(questions(df, results, results.machines if results else ()))
    wanted = [one for one in asked if fnmatchcase(one[0], pattern)]
    if asked and not wanted:
        raise ValueError(f"no figure {pattern!r}; there are: {', '.join(name for name, *_ in asked)}, and all")
    with processes() as pool:
        made = {folder / f"{picture.name}.svg": picture.svg for picture in started(pool, wanted)}
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    return list(made)
