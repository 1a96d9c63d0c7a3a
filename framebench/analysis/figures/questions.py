"""Which figures there are: of each workload and scenario, and of a whole machine."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from framebench.analysis.figures import FigureRequest, Question, pareto
from framebench.analysis.figures.absolute import memory_and_speed
from framebench.analysis.figures.batches import curves, savings
from framebench.analysis.figures.peaks import parts, train_eval
from framebench.analysis.figures.steps import first_steps, shares
from framebench.analysis.figures.strategies import heat, support
from framebench.analysis.rows import size_suffix

OF_A_SCENARIO: dict[str, Question] = {
    "memory-speed": memory_and_speed,
    "pareto": pareto,
    "strategies": heat,
    "batches": curves,
    "savings": savings,
    "parts": parts,
    "first-step": first_steps,
}
OF_A_MACHINE: dict[str, Question] = {"train-eval": train_eval, "shares": shares}


def of_rows(df: pd.DataFrame) -> Iterator[FigureRequest]:
    """Yield the name of each figure, such as `pareto-transformer-train`, what draws it, and its
    rows of one machine.
    """
    for (workload, scenario, size), group in df.groupby(["workload", "scenario", "size"]):
        for name, draw in OF_A_SCENARIO.items():
            yield f"{name}-{workload}-{scenario}{size_suffix(str(size))}", draw, group
    for size, group in df.groupby("size"):
        for name, draw in OF_A_MACHINE.items():
            yield f"{name}{size_suffix(str(size))}", draw, group
    yield "support", support, df
