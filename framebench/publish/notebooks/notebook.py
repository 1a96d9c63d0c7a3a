"""Execute the notebooks of `analysis/notebooks/`: a source in, a notebook with its output out.

The sources are Python files in jupytext's percent form. The executed ones lie next to them in
`executed/`, without times and versions of the kernel, so that the same records give the same bytes.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from framebench.analysis.results import Results
from framebench.cli.shared import check_writable, echo, fail, say
from framebench.records.provenance import ALL, ROOT
from framebench.records.store import write_atomically

if TYPE_CHECKING:
    from nbformat import NotebookNode

NOTEBOOK_SOURCES = ROOT / "analysis" / "notebooks"
EXECUTED = NOTEBOOK_SOURCES / "executed"
TIME_LIMIT_S = 600
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


class NotFilled(RuntimeError):
    """A cell that the records cannot fill; the message is the cell's error."""


def list_sources() -> list[Path]:
    """Return the sources of the notebooks."""
    return sorted(NOTEBOOK_SOURCES.glob("*.py"))


def run(names: list[str], results: Results, machine: str, to: Path | None) -> None:
    """Run the notebooks with these names on a machine's records, and save their executed form."""
    # `make bench` does not install what executes notebooks
    if not all(find_spec(name) for name in ("jupytext", "nbclient", "ipykernel")):
        fail(
            "notebooks are executed by nbclient, which is not installed here: call `make setup`", 1
        )
    sources = {source.stem: source for source in list_sources()}
    unknown = [name for name in names if name not in (*sources, ALL)]
    if unknown:
        fail(f"no notebook {unknown[0]!r}; there are: {', '.join(sources)}, and {ALL}", 2)
    target = to or EXECUTED
    check_writable(target)
    is_incomplete = False
    for name in sources if ALL in names else names:
        say(f"running {name}")
        try:
            executed = execute(sources[name], results.root, machine)
        except NotFilled as error:
            is_incomplete = True
            say(f"left out {name}: the records of {machine} do not fill it ({error})")
        else:
            echo(save(executed, target / f"{name}.ipynb"))
    if is_incomplete:
        raise typer.Exit(1)


def execute(source: Path, results: Path, machine: str, last_cell: str = "") -> NotebookNode:
    """Return the notebook with its output. Raises NotFilled.

    `last_cell` is code for one more cell, whose output is part of the notebook.
    """
    import jupytext
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError
    from nbformat.v4 import new_code_cell

    notebook = jupytext.read(source)
    if last_cell:
        notebook.cells.append(new_code_cell(last_cell))
    env_vars = {
        **os.environ,
        # the default arguments of `framebench.load()`
        "FRAMEBENCH_RESULTS": str(results.resolve()),
        "FRAMEBENCH_MACHINE": machine,
        "PYTHONPATH": str(ROOT),
    }
    resources = {"metadata": {"path": str(ROOT)}}
    client = NotebookClient(
        notebook,
        timeout=TIME_LIMIT_S,
        kernel_name="python3",
        record_timing=False,
        resources=resources,
    )
    try:
        client.execute(env=env_vars)
    except CellExecutionError as error:
        raise NotFilled(f"{error.ename}: {error.evalue}") from None
    # remove what differs from run to run, and from machine to machine
    notebook.metadata = {"kernelspec": KERNEL}
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {}
    return notebook


def save(notebook: NotebookNode, target: Path) -> Path:
    """Write the notebook and return its path. Raises OSError."""
    import nbformat

    write_atomically(nbformat.writes(notebook) + "\n", target)
    return target
