"""What git tracks: the records under results/, and the documents."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from framebench.records import store
from framebench.records.provenance import ROOT
from framebench.records.record import Record
from tests.repositories import run_git


def list_tracked(*patterns: str) -> list[str]:
    """Return what is published; a user's own measurements next to it change no document."""
    return run_git(ROOT, "ls-files", *patterns).splitlines()


@cache
def read_records() -> tuple[Record, ...]:
    """Return all of them, read once per test process."""
    found: list[Record] = []
    for file in list_tracked("results/records"):
        faults: list[store.BadRecord] = []
        found += [record for _, record in store.parse_record_file(str(ROOT / file), faults.append)]
        assert faults == []
    return tuple(found)


def list_anchors(page: Path) -> set[str]:
    """Return the anchors of a Markdown page's headings, as GitHub and Sphinx make them."""
    anchors = set()
    for heading in re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE):
        anchors.add(re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-"))
    return anchors
