"""Make the tables of explained steps that documents show."""

from __future__ import annotations

from itertools import pairwise

from framebench.analysis.rendering import Table
from framebench.analysis.results import Results
from framebench.explain import against, table


def make_tables(results: Results) -> list[Table]:
    """Return tables of each case's newest step, and of its changes against the version before."""
    explanations = table.load_explanations(results.root)
    newest = table.select_newest_version(explanations)
    tables = []
    for explanation in newest:
        tables.append(table.tabulate_kinds(explanation))
        tables.append(table.tabulate_layers(explanation))
    for base, change in pairwise(explanations):
        if base.case == change.case and change in newest:
            tables.append(against.make_table(base, change))
    return tables
