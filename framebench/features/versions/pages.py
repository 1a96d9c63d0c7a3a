"""The page of a machine that compares versions of the frameworks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from framebench.extensions import Page
from framebench.features.versions.table import causes_in, comparisons


def pages(machine: Any) -> Iterator[Page]:
    """Each version of a framework against the one before it, where both have a case."""
    if tables := comparisons(machine.records, causes_in(machine.results.root)):
        yield Page("versions", "Versions", "versions/page.html", lambda: {"comparisons": tables})
