"""Figures from records: one function for each question, a table in, figures out.

A table is what `analysis.load.load` makes, of one machine. The finding stands in the title, computed from the rows; where the
numbers come from stands below. What the rows cannot fill is not drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from analysis import load
from analysis.figures.batches import curves, largest
from analysis.figures.fronts import pareto
from analysis.figures.page import png, save, svg
from analysis.figures.peaks import parts, train_eval
from analysis.figures.steps import first_steps, shares
from analysis.figures.strategies import heat, support

__all__ = [
    "QUESTIONS", "curves", "draw_all", "first_steps", "heat", "largest", "pareto", "parts", "png", "save", "save_all", "shares",
    "support", "svg", "train_eval",
]  # fmt: skip

Question = Callable[[pd.DataFrame], Iterator[tuple[str, Figure]]]
QUESTIONS: tuple[Question, ...] = (pareto, heat, curves, parts, train_eval, first_steps, shares, support)


def draw_all(table: pd.DataFrame, results: Path | None = None) -> dict[str, Figure]:
    """Every figure that the rows can fill, by name, such as `pareto-transformer-train`.

    `table` holds the rows of one machine; `results` is the folder that has `fits/`, without which those are left out.
    Raises ValueError if there are rows of more than one machine.
    """
    machines = sorted(set(table["machine"]))
    if len(machines) > 1:
        raise ValueError(f"figures show one machine, and here are rows of {', '.join(machines)}; choose one of them")
    settled = load.current(table)
    found = {name: drawn for question in QUESTIONS for name, drawn in question(settled)}
    return found | {name: drawn for machine in machines for name, drawn in largest(machine, results)}


def save_all(table: pd.DataFrame, folder: Path, results: Path | None = None) -> list[Path]:
    """Write every figure as `folder`/<name>.svg, the same bytes for the same rows. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    return [save(drawn, folder / f"{name}.svg") for name, drawn in draw_all(table, results).items()]
