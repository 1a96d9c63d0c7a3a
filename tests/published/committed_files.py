"""What git tracks under results/."""

from __future__ import annotations

import subprocess
from functools import cache

from framebench.records import store
from framebench.records.provenance import ROOT
from framebench.records.record import Record


def tracked(*patterns: str) -> list[str]:
    """What is published is what git tracks: a user's own measurements beside it change no
    document.
    """
    listed = subprocess.run(
        ["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return listed.stdout.split()


@cache
def records() -> tuple[Record, ...]:
    """All of them, read once per test process."""
    found = []
    for file in tracked("results/records"):
        for place, record in store.parse_record_file(str(ROOT / file)):
            assert isinstance(record, Record), f"{place}: {record}"
            found.append(record)
    return tuple(found)
