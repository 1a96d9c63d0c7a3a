"""The tables that documents show of explained steps."""

from __future__ import annotations

from framebench.analysis.comparison import Comparison
from framebench.analysis.results import Results
from framebench.explain import against, table


def documents(results: Results) -> list[Comparison]:
    """Each case's newest step by kind and by layer, and how two versions of a case differ."""
    explanations = table.kept(results.root)
    steps = [make(explanation) for explanation in table.newest(explanations) for make in (table.by_kind, table.by_layer)]
    return [*steps, *(against.table(*pair) for pair in table.of_two_versions(explanations))]
