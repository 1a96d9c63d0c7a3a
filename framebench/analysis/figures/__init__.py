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
from framebench.analysis.comparison import MIB
from framebench.analysis.figures.batches import curves, largest, searches
from framebench.analysis.figures.fronts import pareto
from framebench.analysis.figures.page import COLOURS, MARKERS, said, svg
from framebench.analysis.figures.peaks import parts, train_eval
from framebench.analysis.figures.steps import first_steps, shares
from framebench.analysis.figures.strategies import heat, support
from framebench.analysis.results import Results
from framebench.analysis.rows import suffix

__all__ = [
    "COLOURS", "MARKERS", "Picture", "curves", "draw_all", "first_steps", "heat", "largest", "pareto", "parts",
    "pictures", "save_all", "searches", "shares", "support", "svg", "train_eval",
]  # fmt: skip

Question = Callable[[pd.DataFrame], Figure | None]
OF_A_SCENARIO: dict[str, Question] = {
    "pareto": pareto, "strategies": heat, "batches": curves, "parts": parts, "first-step": first_steps,
}  # fmt: skip
OF_A_MACHINE: dict[str, Question] = {"train-eval": train_eval, "shares": shares}


class Picture(NamedTuple):
    """A figure as text. `finding` is its title, `source` where its numbers come from."""

    name: str
    svg: str
    finding: str
    source: str


def questions(
    df: pd.DataFrame, results: Results | None, others: Iterable[str] = ()
) -> Iterator[tuple[str, Question, pd.DataFrame]]:
    """The name of each figure, such as `pareto-transformer-train`, what draws it, and from which rows. Versions that the
    machine has not measured are shown as `others` have. Raises ValueError."""
    machines = sorted(set(df["machine"]))
    if len(machines) > 1:
        raise ValueError(f"figures show one machine, and here are rows of {', '.join(machines)}; choose one of them")
    for (workload, scenario, size), group in df.groupby(["workload", "scenario", "size"]):
        yield from ((f"{name}-{workload}-{scenario}{suffix(str(size))}", draw, group) for name, draw in OF_A_SCENARIO.items())
    for size, group in df.groupby("size"):
        yield from ((f"{name}{suffix(str(size))}", draw, group) for name, draw in OF_A_MACHINE.items())
    yield "support", support, df
    for more in extensions.every("figures") if results and machines else ():
        yield from more(results, (*machines, *others))
    search_rows = searches(results.root, machines[0]) if results and machines else pd.DataFrame()
    for key, group in search_rows.groupby(["workload", "scenario", "size", "budget_bytes"]) if len(search_rows) else ():
        workload, scenario, size, budget = key
        yield f"largest-{workload}-{scenario}-{int(str(budget)) / MIB:.0f}MiB{suffix(str(size))}", largest, group


def draw_all(df: pd.DataFrame, results: Results | None = None) -> dict[str, Figure]:
    """Every figure that the rows can fill, by name.

    `df` is what `framebench.load` makes; `results` has searches and all versions' records, without which what they
    show is left out.
    Raises ValueError if there are rows of more than one machine.
    """
    drawn = {name: draw(group) for name, draw, group in questions(df, results)}
    return {name: figure for name, figure in drawn.items() if figure}


def pictures(df: pd.DataFrame, results: Results | None = None, others: Iterable[str] = ()) -> list[Picture]:
    """The same as text; drawn by as many processes as this one may use processors, since a figure takes half a second."""
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return [picture for picture in pool.map(written, *zip(*questions(df, results, others))) if picture]


def written(name: str, draw: Question, df: pd.DataFrame) -> Picture | None:
    figure = draw(df)
    return Picture(name, svg(figure), *said(figure)) if figure else None


def save_all(df: pd.DataFrame, folder: Path, results: Results | None = None) -> list[Path]:
    """Write every figure as `folder`/<name>.svg, the same bytes for the same rows, and those of versions that only another
    machine has measured. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    others = results.machines if results else ()
    made = {folder / f"{picture.name}.svg": picture.svg for picture in pictures(df, results, others)}
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    return list(made)
