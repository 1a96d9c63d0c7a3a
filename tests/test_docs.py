"""The tables in the documents are the records' own: regenerating them changes nothing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from analysis import load, tables, versions
from analysis.claims import show as claims
from analysis.docs import NoSuchTable, refresh
from analysis.report import report_of
from analysis.tables import Comparison
from framebench import records
from tests.conftest import ROOT

TABLE = Comparison("one", "caption", ("a", "b", "c"), (("1", "2", "3"),))


def test_blocks_are_filled_and_everything_else_stays() -> None:
    text = "before\n<!-- table: one -->\nold\n<!-- end -->\nafter"
    filled = refresh(text, [TABLE])
    assert "old" not in filled
    assert "| 1 | 2 | 3 |" in filled
    assert filled.startswith("before\n")
    assert filled.endswith("\nafter")
    assert refresh(filled, [TABLE]) == filled


def test_an_unknown_table_is_answered_by_the_known_ones() -> None:
    with pytest.raises(NoSuchTable, match="one"):
        refresh("<!-- table: two -->\n<!-- end -->", [TABLE])


def tracked(*patterns: str) -> list[str]:
    """What is published is what git tracks: a user's own measurements beside it change no document."""
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.split()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The published results alone."""
    root = tmp_path_factory.mktemp("published")
    for file in tracked("results"):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, root / file)
    return root / "results"


def published() -> list[Comparison]:
    found = [records.read(ROOT / file) for file in tracked("results/records")]
    return [*report_of(load.frame(load.latest(found))), *versions.comparisons(found)]


@pytest.mark.parametrize("document", ["README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").glob("*.md"))])
def test_tables_in_documents_are_generated(document: str, results: Path) -> None:
    text = (ROOT / document).read_text()
    assert refresh(text, [*published(), *tables.of_the_table(), *claims.tables(results)]) == text


def test_published_tables_are_generated() -> None:
    for file in tracked("results/tables"):
        machine = Path(file).stem
        made = "\n".join(tables.markdown(c) for c in published() if c.machine == machine)
        assert made == (ROOT / file).read_text(), file


def test_published_records_are_complete() -> None:
    """Each `ok` record carries verification, effect, instrument, samples and provenance; every cell has a record."""
    found = [records.read(ROOT / file) for file in tracked("results/records")]
    for record in found:
        if record.status == "ok":
            assert record.verification, record.case
            assert record.verification.passed, record.case
            assert record.effect, record.case
            assert record.peak_instrument, record.case
            assert len(record.step_s) >= 3, record.case
            assert record.provenance.commit, record.case
            assert record.provenance.dirty is False, record.case
    assert {(c.workload, c.framework) for c in (r.parsed for r in found if r.status == "ok")} == {
        (w, f) for w in ("resnet50", "unet3d", "transformer") for f in ("torch", "jax", "jittor")
    }
