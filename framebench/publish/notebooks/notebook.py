"""Execute the notebooks of `analysis/notebooks/`: a source in, a notebook with its output out.

The sources are Python files in jupytext's percent form. The executed ones lie next to them in
`executed/`, without times and versions of the kernel, so that the same records give the same bytes.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from framebench.records.provenance import ROOT
from framebench.records.store import write_atomically

if TYPE_CHECKING:
    from nbformat import NotebookNode

SOURCES = ROOT / "analysis" / "notebooks"
EXECUTED = SOURCES / "executed"
TIME_LIMIT_S = 600


class NotFilled(RuntimeError):
    """A cell that the records cannot fill; the message is the cell's error."""


def list_sources() -> list[Path]:
    """Return the sources of the notebooks."""
    return sorted(SOURCES.glob("*.py"))


def can_execute() -> bool:
    """Return whether what executes notebooks is installed: `make bench` alone does without."""
    return all(find_spec(name) for name in ("jupytext", "nbclient", "ipykernel"))


def execute(source: Path, results: Path, machine: str, more: str = "") -> NotebookNode:
    """Return the notebook with its output. Raises NotFilled.

    `more` is code for one last cell, whose output is part of the notebook.
    """
    import jupytext
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError
    from nbformat.v4 import new_code_cell

    notebook = jupytext.read(source)
    if more:
        notebook.cells.append(new_code_cell(more))
    environment = {
        **os.environ,
        # what `framebench.load()` reads where nothing is named
        "FRAMEBENCH_RESULTS": str(results.resolve()),
        "FRAMEBENCH_MACHINE": machine,
        "PYTHONPATH": str(ROOT),
    }
    client = NotebookClient(
        notebook,
        timeout=TIME_LIMIT_S,
        kernel_name="python3",
        record_timing=False,
    )
    client.resources = {"metadata": {"path": str(ROOT)}}
    try:
        client.execute(env=environment)
    except CellExecutionError as error:
        raise NotFilled(f"{error.ename}: {error.evalue}") from None
    return strip(notebook)


def strip(notebook: NotebookNode) -> NotebookNode:
    """Remove what differs from run to run, and from machine to machine."""
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook.metadata = {"kernelspec": kernel}
    for i, cell in enumerate(notebook.cells):
        cell.id = f"cell-{i}"
        cell.metadata = {}
    return notebook


def save(notebook: NotebookNode, target: Path) -> Path:
    """Write the notebook and return its path. Raises OSError."""
    import nbformat

    write_atomically(nbformat.writes(notebook) + "\n", target)
    return target
