"""Which figures there are: of each workload and scenario, and of a whole machine."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from framebench.analysis.figures import FigureRequest, Question, draw_pareto
from framebench.analysis.figures.absolute import draw_memory_and_speed
from framebench.analysis.figures.batches import draw_curves, draw_savings
from framebench.analysis.figures.peaks import draw_parts, draw_train_eval
from framebench.analysis.figures.steps import draw_first_steps, draw_shares
from framebench.analysis.figures.strategies import draw_heat_map, draw_support
from framebench.analysis.rows import format_size_suffix

OF_A_SCENARIO: dict[str, Question] = {
    "memory-speed": draw_memory_and_speed,
    "pareto": draw_pareto,
    "strategies": draw_heat_map,
    "batches": draw_curves,
    "savings": draw_savings,
    "parts": draw_parts,
    "first-step": draw_first_steps,
}
OF_A_MACHINE: dict[str, Question] = {"train-eval": draw_train_eval, "shares": draw_shares}


def list_figure_requests(df: pd.DataFrame) -> Iterator[FigureRequest]:
    """Yield each figure of one machine: its name, what draws it, and its rows.

    A name is such as `pareto-transformer-train`.
    """
    for (workload, scenario, size), group in df.groupby(["workload", "scenario", "size"]):
        suffix = format_size_suffix(str(size))
        for name, draw in OF_A_SCENARIO.items():
            yield f"{name}-{workload}-{scenario}{suffix}", draw, group
    for size, group in df.groupby("size"):
        suffix = format_size_suffix(str(size))
        for name, draw in OF_A_MACHINE.items():
            yield f"{name}{suffix}", draw, group
    yield "support", draw_support, df
