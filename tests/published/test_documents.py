"""The tables in the documents are the records' own: regenerating them changes nothing."""

from __future__ import annotations

import re
import shutil
from functools import cache
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from framebench.analysis.reports.documents import DocumentPart, refresh
from framebench.analysis.results import Results
from framebench.cluster.checks import check
from framebench.publish.tables import make_document_parts, make_tables
from tests.processes import ROOT
from tests.published.committed_files import list_anchors, list_tracked


@cache
def make_published_tables() -> list[DocumentPart]:
    with TemporaryDirectory() as folder:
        for file in list_tracked("results"):
            (Path(folder) / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, Path(folder) / file)
        results = Results(Path(folder) / "results")
        return make_document_parts(results, make_tables(results.records, results))


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
each_page = pytest.mark.parametrize("page", PAGES, ids=attrgetter("name"))


@each_page
def test_tables_in_documents_are_generated(page):
    text = page.read_text()
    assert refresh(text, make_published_tables()) == text


def list_links(page: Path) -> list[str]:
    """Return the targets of a page's links inside the project, outside blocks of code."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    return [target for target in targets if not re.match(r"[a-z]+://", target)]


@each_page
def test_links_lead_to_files_and_headings_that_exist(page):
    for target in list_links(page):
        name, _, anchor = target.partition("#")
        file = (page.parent / name) if name else page
        assert file.exists(), target
        if anchor:
            assert anchor in list_anchors(file), target


def test_published_tables_are_generated():
    results = Results.committed(ROOT / "results")
    tables = make_tables(results.records, results)
    files = list_tracked("results/tables")
    assert files
    for file in files:
        of_machine = [table.markdown() for table in tables if table.machine == Path(file).stem]
        assert "\n".join(of_machine) == (ROOT / file).read_text(), file


def test_published_records_have_no_problem():
    """Notes, which the check prints too, are no problems."""
    report = check(ROOT / "results")
    assert report.records
    assert report.problems == []


def test_links_to_documents_in_the_code_lead_to_a_heading():
    """An example is docs/reading.md#what-a-job-needs."""
    links = set()
    for path in (ROOT / "framebench").rglob("*.py"):
        links.update(re.findall(r"docs/([\w-]+\.md)#([\w-]+)", path.read_text()))
    assert links
    for page, anchor in links:
        assert anchor in list_anchors(ROOT / "docs" / page), (page, anchor)
