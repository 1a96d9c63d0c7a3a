"""Test what README says against the published records, and the program of docs/data.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import framebench
from framebench.models.spec import list_confirmed_workloads
from framebench.suite.profiles import list_profile_cases
from tests.processes import ROOT

README = (ROOT / "README.md").read_text()
(SHOWN,) = re.findall(r"table: (.+): in words", README)
BLOCKS = 5


def test_every_time_of_the_quick_profile_has_five_blocks_on_the_machine_that_is_shown() -> None:
    df = framebench.load(results=ROOT / "results", machine=SHOWN).set_index("case")
    quick = df.loc[
        [
            case.id
            for case in list_profile_cases("quick")
            if case.workload in list_confirmed_workloads()
        ]
    ]
    assert set(quick.loc[quick["status"] != "ok", "status"]) <= {"unsupported", "wrong"}
    measured = quick.loc[quick["status"] == "ok", "blocks"]
    assert len(measured) > 60
    assert (few := measured[measured < BLOCKS]).empty, few


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda page: page.name
)
def test_links_have_existing_targets(page: Path) -> None:
    """To files that exist, and to headings that they have."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+://", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name) if name else page
        assert file.exists(), target
        if anchor:
            heads = re.findall(r"^#+ (.*)$", file.read_text(), re.M)
            assert anchor in {
                re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads
            }, target
