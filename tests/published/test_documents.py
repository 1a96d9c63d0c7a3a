"""The tables in the documents are the records' own: regenerating them changes nothing."""

from __future__ import annotations

import re
import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from framebench.analysis.reports.documents import Generated, refresh
from framebench.analysis.results import Results
from framebench.cluster.checks import check
from framebench.publish.tables import make_document_parts, make_tables
from framebench.records.record import ROUNDS
from tests.processes import ROOT
from tests.published.committed_files import records, tracked


@cache
def published() -> list[Generated]:
    with TemporaryDirectory() as folder:
        for file in tracked("results"):
            (Path(folder) / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, Path(folder) / file)
        return make_document_parts(Results(Path(folder) / "results"))


@pytest.mark.parametrize(
    "document",
    ["README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").glob("*.md"))],
)
def test_tables_in_documents_are_generated(document: str) -> None:
    text = (ROOT / document).read_text()
    assert refresh(text, published()) == text


def test_published_tables_are_generated() -> None:
    found = make_tables(records(), Results.committed(ROOT / "results"))
    for file in tracked("results/tables"):
        machine = Path(file).stem
        made = "\n".join(c.markdown() for c in found if c.machine == machine)
        assert made == (ROOT / file).read_text(), file


# the copy that measured lay in the repository of an older commit: docs/gpu.md
COPIED = {"nvidia-h200"}


def test_published_records_are_complete() -> None:
    """Each `ok` record carries verification, effect, instrument, samples and provenance; every cell
    has a record.
    """
    found = records()
    for record in found:
        if record.status == "ok":
            assert record.verification, record.case
            assert record.verification.passed, record.case
            assert record.effect, record.case
            # of a session the first block's records have peaks
            assert record.peak_instrument or record.turns, record.case
            several = record.parsed.ranks > 1  # which have no times
            for_peaks = several or (record.turns is not None and len(record.turns.round) < ROUNDS)
            assert record.peaks if for_peaks else len(record.step_s) >= ROUNDS, record.case
            assert len(record.ranks) == (record.parsed.ranks if several else 0), record.case
            assert record.provenance.commit, record.case
            assert record.provenance.dirty is False or record.provenance.machine in COPIED, (
                record.case
            )
    assert {(c.workload, c.framework) for c in (r.parsed for r in found if r.status == "ok")} == {
        (w, f) for w in ("resnet50", "unet3d", "transformer") for f in ("torch", "jax", "jittor")
    }


def test_files_that_documents_name_exist() -> None:
    """Paths below the project's folders; capital letters stand for what a user puts there."""
    files = tracked()
    folders = {file.split("/")[0] for file in files if "/" in file}
    for document in (file for file in files if file.endswith(".md")):
        named = re.findall(
            r"(?<![\w./*-])([\w-]+(?:/[\w.-]+)*/[\w-]+\.(?:py|md|txt|json|cc|sh|svg))(?![\w*])",
            (ROOT / document).read_text(),
        )
        wanted = {
            path
            for path in named
            if path.split("/")[0] in folders and not re.search(r"[A-Z]{3,}", path)
        }
        beside = str(Path(document).parent)
        assert {
            path for path in wanted if path not in files and f"{beside}/{path}" not in files
        } == set(), document


def test_published_records_have_no_problem_but_notes() -> None:
    found = check(ROOT / "results")
    assert found.records
    assert not found.problems


def test_places_in_documents_that_commands_name_exist() -> None:
    """Such as docs/reading.md#what-a-job-needs."""
    sources = [path.read_text() for path in (ROOT / "framebench").rglob("*.py")]
    named = {match for text in sources for match in re.findall(r"docs/([\w-]+\.md)#([\w-]+)", text)}
    assert named
    for page, anchor in named:
        headings = re.findall(r"^#+ (.+)$", (ROOT / "docs" / page).read_text(), re.MULTILINE)
        assert anchor in {
            re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings
        }, (page, anchor)
