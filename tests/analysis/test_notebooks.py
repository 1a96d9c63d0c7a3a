"""Every notebook runs on the committed results, without a framework, and gives the same bytes twice."""

from __future__ import annotations

from pathlib import Path

import jupytext
import nbformat
import pytest

from analysis import notebook
from analysis.results import Results
from tests.processes import ROOT

NO_FRAMEWORK = 'import sys\nprint({"torch", "jax", "jittor"} & set(sys.modules))'
FAMILIES = {"strategies", "frameworks", "train_against_eval", "batch_scaling", "versions", "claims"}


@pytest.fixture(scope="module")
def machine() -> str:
    return Results(ROOT / "results").machines[0]


def test_there_is_one_for_each_family_of_questions() -> None:
    assert {source.stem for source in notebook.sources()} == FAMILIES


@pytest.mark.slow
@pytest.mark.parametrize("source", notebook.sources(), ids=lambda path: path.stem)
def test_each_runs_on_the_committed_results_without_a_framework(source: Path, machine: str) -> None:
    made = notebook.execute(source, ROOT / "results", machine, NO_FRAMEWORK)
    assert made.cells[-1].outputs[0].text == "set()\n"
    outputs = [output for cell in made.cells[:-1] if cell.cell_type == "code" for output in cell.outputs]
    assert any("text/markdown" in output.get("data", {}) for output in outputs), "a notebook says something"
    assert not any(output.output_type == "stream" and output.name == "stderr" for output in outputs), "and nothing went wrong"
    committed = nbformat.read(notebook.EXECUTED / source.with_suffix(".ipynb").name, as_version=4)
    assert list(map(told, committed.cells)) == list(map(told, made.cells[:-1])), "stale: make notebooks"


def told(cell: nbformat.NotebookNode) -> tuple[str, list[str]]:
    """What a cell is and says; pictures may differ in their last bits from machine to machine."""
    outputs = cell.get("outputs", [])
    return cell.source, [o["data"]["text/markdown"] for o in outputs if "text/markdown" in o.get("data", {})]


@pytest.mark.slow
def test_the_same_records_give_the_same_notebook(machine: str, tmp_path: Path) -> None:
    source = notebook.SOURCES / "train_against_eval.py"
    first, second = (
        notebook.save(notebook.execute(source, ROOT / "results", machine), tmp_path / f"{i}.ipynb").read_bytes()
        for i in range(2)
    )
    assert first == second
    assert str(ROOT).encode() not in first


@pytest.mark.parametrize("source", notebook.sources(), ids=lambda path: path.stem)
def test_the_prose_carries_no_measured_number(source: Path) -> None:
    """Numbers are computed: a ratio or a percentage in prose would be typed by hand."""
    prose = [cell.source for cell in jupytext.read(source).cells if cell.cell_type == "markdown"]
    assert prose[0].startswith("# ")
    assert prose[0].split("\n")[0].endswith("?"), "the title is the question"
    assert not any(mark in text for text in prose for mark in ("%", "0.", "MiB", "GiB"))


def test_an_unknown_machine_is_answered_by_the_known_ones(monkeypatch: pytest.MonkeyPatch, machine: str) -> None:
    monkeypatch.setenv(notebook.MACHINE, "nowhere")
    with pytest.raises(LookupError, match=machine):
        notebook.measured()
