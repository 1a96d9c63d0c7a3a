"""The tables of explained steps that documents show."""

from __future__ import annotations

from framebench.analysis.rendering import Table
from framebench.analysis.results import Results
from framebench.explain import against, table


def make_tables(results: Results) -> list[Table]:
    """Return each case's newest step by kind and by layer, and how two versions of a case
    differ.
    """
    explanations = table.load_explanations(results.root)
    tables = []
    for explanation in table.select_newest(explanations):
        tables.append(table.tabulate_kinds(explanation))
        tables.append(table.tabulate_layers(explanation))
    for base, change in table.pair_versions(explanations):
        tables.append(against.make_table(base, change))
    return tables
