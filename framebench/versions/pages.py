"""The page of a machine that compares versions of the frameworks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from framebench.analysis.reports.page import Page
from framebench.explain.table import load_causes
from framebench.versions.judge import compare_successive
from framebench.versions.table import describe_changes, make_table


def pages(machine: Any) -> Iterator[Page]:
    """Yield the page of each version against the one before it, where both have a case."""
    pairs = list(compare_successive(machine.records))
    if not pairs:
        return
    find_cause = load_causes(machine.results.root)
    context = {"comparisons": [make_table(rows, find_cause) for rows in pairs]}

    def make_context() -> dict[str, Any]:
        return context

    sentences = tuple(describe_changes(rows) for rows in pairs)
    yield Page("versions", "Versions", "versions/page.html", make_context, sentences)
