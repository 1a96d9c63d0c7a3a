"""Choose the figures that there are for a machine, and write them as files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pandas as pd

from framebench.analysis.figures import FigureRequest, Question, render_all, start_drawing_pool
from framebench.analysis.figures.batches import draw_curves, draw_savings
from framebench.analysis.figures.fronts import draw_memory_and_speed, draw_pareto
from framebench.analysis.results import Results
from framebench.analysis.rows import format_size_suffix
from framebench.budget.max_batch import figure as max_batch
from framebench.devices import figure as devices
from framebench.explain import figure as explain
from framebench.records.store import write_atomically
from framebench.versions import figure as versions

# each workload, scenario and size has these figures
QUESTIONS: dict[str, Question] = {
    "memory-speed": draw_memory_and_speed,
    "pareto": draw_pareto,
    "batches": draw_curves,
    "savings": draw_savings,
}


def list_figures(
    df: pd.DataFrame,
    results: Results | None = None,
    others: Iterable[str] = (),
) -> Iterator[FigureRequest]:
    """Yield the name of each figure that there may be, the function that draws it, and its rows.

    A name is, for instance, `pareto-transformer-train`. Releases that the machine has not measured
    are shown as the machines in `others` measured them. The rows are of one machine.
    """
    machines = sorted(set(df["machine"]))  # one, or none without rows
    for (workload, scenario, size), group in df.groupby(["workload", "scenario", "size"]):
        for name, draw in QUESTIONS.items():
            yield f"{name}-{workload}-{scenario}{format_size_suffix(str(size))}", draw, group
    if results and machines:
        for module in (devices, explain, max_batch, versions):
            yield from module.figures(results, (*machines, *others))


def save(
    df: pd.DataFrame,
    folder: Path,
    results: Results | None = None,
    pattern: str = "*",
) -> list[Path]:
    """Write the figures whose names match `pattern` as `folder`/<name>.svg, and return the paths.

    The same rows give the same bytes. Figures of releases may be of a machine other than that of
    `df`. Raises OSError, and ValueError if no figure has such a name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    machines = results.machines if results else []
    names = []
    chosen = []
    for figure in list_figures(df, results, machines):
        name, _draw, _rows = figure
        names.append(name)
        if fnmatchcase(name, pattern):
            chosen.append(figure)
    if names and not chosen:
        raise ValueError(f"no figure {pattern!r}; there are: {', '.join(names)}, and all")
    paths = []
    with start_drawing_pool() as pool:
        for picture in render_all(pool, chosen):
            path = folder / f"{picture.name}.svg"
            write_atomically(picture.svg, path)
            paths.append(path)
    return paths
