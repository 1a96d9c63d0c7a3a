"""What the notebooks of `analysis/notebooks/` call, and how they are executed: text in, a notebook with its output out.

The sources are Python files in jupytext's percent form. The executed ones lie beside them in `executed/`, without times and
versions of the kernel, so that the same records give the same bytes.
"""

from __future__ import annotations

import os
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from analysis import frames
from analysis.tables import Comparison, markdown
from framebench.records import store
from framebench.records.provenance import ROOT

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from nbformat import NotebookNode

SOURCES = ROOT / "analysis" / "notebooks"
EXECUTED = SOURCES / "executed"
RESULTS, MACHINE = "FRAMEBENCH_NOTEBOOK_RESULTS", "FRAMEBENCH_NOTEBOOK_MACHINE"  # what a notebook reads, where it is told
TIME_LIMIT_S = 600


class Measured(NamedTuple):
    """What a notebook is about: the rows of one machine, and the folder that they come from."""

    table: pd.DataFrame
    machine: str
    results: Path


def measured() -> Measured:
    """The machine that the notebook was told, or the one with the most records. Raises LookupError if there is none."""
    results = Path(os.environ.get(RESULTS, ROOT / "results"))
    table = frames.frame(frames.latest(store.read_all(results)))
    counts = table["machine"].value_counts()
    machine = os.environ.get(MACHINE) or next(iter(sorted(counts.index, key=lambda name: (-counts[name], name))), "")
    if machine not in counts.index:
        raise LookupError(f"no records of machine {machine!r} under {results}; there are: {', '.join(sorted(counts.index))}")
    return Measured(table[table["machine"] == machine], machine, results)


def show(*things: Figure | Comparison | str) -> None:
    """Figures as PNG, a fraction of an SVG inside a notebook; tables and sentences as Markdown."""
    from IPython.display import display

    from analysis.figures import png

    if not things:
        display({"text/markdown": "*The records of this machine do not fill this.*"}, raw=True)
    for thing in things:
        if isinstance(thing, str):
            display({"text/markdown": thing, "text/plain": thing}, raw=True)
        elif isinstance(thing, Comparison):
            display({"text/markdown": markdown(thing), "text/plain": thing.title}, raw=True)
        else:
            display({"image/png": b64encode(png(thing)).decode(), "text/plain": "a figure"}, raw=True)


def sources() -> list[Path]:
    return sorted(SOURCES.glob("*.py"))


def execute(source: Path, results: Path, machine: str, more: str = "") -> NotebookNode:
    """The notebook with its output; `more` is code for one last cell, whose output is kept. Raises CellExecutionError."""
    import jupytext
    from nbclient import NotebookClient
    from nbformat.v4 import new_code_cell

    made = jupytext.read(source)
    if more:
        made.cells.append(new_code_cell(more))
    told = {RESULTS: str(results.resolve()), MACHINE: machine, "PYTHONPATH": str(ROOT)}
    client = NotebookClient(made, timeout=TIME_LIMIT_S, kernel_name="python3", record_timing=False)
    client.resources = {"metadata": {"path": str(ROOT)}}
    client.execute(env={**os.environ, **told})
    return stripped(made)


def stripped(made: NotebookNode) -> NotebookNode:
    """Without what differs from run to run, and from machine to machine."""
    made.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    for i, cell in enumerate(made.cells):
        cell.id, cell.metadata = f"cell-{i}", {}
    return made


def save(made: NotebookNode, target: Path) -> Path:
    """Raises OSError."""
    import nbformat

    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(made, target)
    return target
