"""Test what README says against the published records, and the program of docs/data.md."""

from __future__ import annotations

import re
from operator import attrgetter
from pathlib import Path

import pytest

import framebench
from framebench.models.spec import list_confirmed_workloads
from framebench.suite.profiles import list_profile_cases
from tests.processes import ROOT
from tests.published.committed_files import list_anchors

README = (ROOT / "README.md").read_text()
(SHOWN,) = re.findall(r"table: (.+): in words", README)
BLOCKS = 5


def test_quick_cases_are_timed_in_five_blocks_unless_unsupported_or_wrong() -> None:
    """On the machine that README shows."""
    rows = framebench.load(results=ROOT / "results", machine=SHOWN).set_index("case")
    confirmed = list_confirmed_workloads()
    quick = [case.id for case in list_profile_cases("quick") if case.workload in confirmed]
    rows = rows.loc[quick]
    is_measured = rows["status"] == "ok"
    assert set(rows.loc[~is_measured, "status"]) <= {"unsupported", "wrong"}
    assert is_measured.sum() > 60  # of 84; the others are unsupported or wrong
    assert rows.loc[is_measured, "blocks"].min() >= BLOCKS


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=attrgetter("name")
)
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+://", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name) if name else page
        assert file.exists(), target
        if anchor:
            assert anchor in list_anchors(file), target
