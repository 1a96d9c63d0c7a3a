"""The page of a machine that compares versions of the frameworks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from framebench.analysis.reports.page import Page
from framebench.explain.table import causes
from framebench.versions.judge import successive
from framebench.versions.table import in_words, table


def pages(machine: Any) -> Iterator[Page]:
    """Each version of a framework against the one before it, where both have a case."""
    if pairs := list(successive(machine.records)):
        cause = causes(machine.results.root)
        tables = [table(rows, cause) for rows in pairs]
        yield Page(
            "versions",
            "Versions",
            "versions/page.html",
            lambda: {"comparisons": tables},
            tuple(in_words(rows) for rows in pairs),
        )
