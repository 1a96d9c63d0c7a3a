"""How the notebooks of `analysis/notebooks/` are executed: a source in, a notebook with its output out.

The sources are Python files in jupytext's percent form. The executed ones lie beside them in `executed/`, without times and
versions of the kernel, so that the same records give the same bytes.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from framebench.records.provenance import ROOT

if TYPE_CHECKING:
    from nbformat import NotebookNode

SOURCES = ROOT / "analysis" / "notebooks"
EXECUTED = SOURCES / "executed"
TIME_LIMIT_S = 600


class NotFilled(RuntimeError):
    """A cell that the records cannot fill; the message is the cell's error."""


def sources() -> list[Path]:
    return sorted(SOURCES.glob("*.py"))


def can_execute() -> bool:
    """Whether what executes notebooks is installed: `make bench` alone does without."""
    return all(find_spec(name) for name in ("jupytext", "nbclient", "ipykernel"))


def execute(source: Path, results: Path, machine: str, more: str = "") -> NotebookNode:
    """The notebook with its output; `more` is code for one last cell, whose output is kept. Raises NotFilled."""
    import jupytext
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError
    from nbformat.v4 import new_code_cell

    made = jupytext.read(source)
    if more:
        made.cells.append(new_code_cell(more))
    # what `framebench.load()` reads where nothing is named
    told = {"FRAMEBENCH_RESULTS": str(results.resolve()), "FRAMEBENCH_MACHINE": machine, "PYTHONPATH": str(ROOT)}
    client = NotebookClient(made, timeout=TIME_LIMIT_S, kernel_name="python3", record_timing=False)
    client.resources = {"metadata": {"path": str(ROOT)}}
    try:
        client.execute(env={**os.environ, **told})
    except CellExecutionError as error:
        raise NotFilled(f"{error.ename}: {error.evalue}") from None
    return _stripped(made)


def _stripped(made: NotebookNode) -> NotebookNode:
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
