"""Every notebook runs on the committed results without a framework, and gives the same bytes
twice.
"""

from __future__ import annotations

import re
from operator import attrgetter
from pathlib import Path

import jupytext
import nbformat
import pytest
from _pytest.mark import ParameterSet

from framebench.publish.notebooks import notebook
from tests.processes import ROOT

MACHINE = "xeon-2core"  # whose records the committed notebooks show, but for
OTHER_MACHINES = {"versions": "zen4-2core", "comparison": "zen4-2core"}
NO_FRAMEWORK = 'import sys\nprint({"torch", "jax", "jittor"} & set(sys.modules))'
# which `make test` runs; of the others it compares the cells with the source
OFTEN = ("versions",)
EVERY = pytest.mark.parametrize("source", notebook.list_sources(), ids=attrgetter("stem"))


@EVERY
def test_the_executed_notebook_has_the_cells_of_its_source(source):
    committed = nbformat.read(notebook.EXECUTED / f"{source.stem}.ipynb", as_version=4)
    executed_cells = [cell.source for cell in committed.cells]
    source_cells = [cell.source for cell in jupytext.read(source).cells]
    assert executed_cells == source_cells, "stale: make notebooks"


@EVERY
def test_a_notebook_uses_the_public_interface_alone(source):
    assert not re.search(r"(from|import) framebench\.", source.read_text())


def mark_rare(source: Path) -> ParameterSet:
    """Return a notebook as a parameter; most are for `make test-all`."""
    marks = () if source.stem in OFTEN else pytest.mark.all_cases
    return pytest.param(source, id=source.stem, marks=marks)


@pytest.mark.slow
@pytest.mark.parametrize("source", [mark_rare(source) for source in notebook.list_sources()])
def test_notebooks_run_on_committed_results_without_a_framework(source):
    machine = OTHER_MACHINES.get(source.stem, MACHINE)
    executed = notebook.execute(source, ROOT / "results", machine, NO_FRAMEWORK)
    assert executed.cells[-1].outputs[0].text == "set()\n"
    own_cells = executed.cells[:-1]  # the last one is NO_FRAMEWORK

    outputs = []
    for cell in own_cells:
        if cell.cell_type == "code":
            outputs += cell.outputs
    assert any("image/png" in output.get("data", {}) for output in outputs)
    for output in outputs:
        assert output.output_type != "stream", f"a warning or an error: {output}"

    committed = nbformat.read(notebook.EXECUTED / f"{source.stem}.ipynb", as_version=4)
    results = [get_result(cell) for cell in own_cells]
    committed_results = [get_result(cell) for cell in committed.cells]
    assert committed_results == results, "stale: make notebooks"


def get_result(cell: nbformat.NotebookNode) -> tuple[str, list[str]]:
    """Return a cell's source and texts; pictures may differ in their last bits by machine."""
    texts = []
    for output in cell.get("outputs", []):
        for kind in ("text/markdown", "text/html", "text/plain"):
            if kind in output.get("data", {}):
                texts.append(output["data"][kind])
    return cell.source, texts
