"""Everything that the records say, as tables: what `framebench report` prints and the documents show."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis import breakdown, explained, predict, tables
from analysis.tables import Comparison


def report_of(table: pd.DataFrame) -> list[Comparison]:
    """Every comparison that the rows give."""
    return [*tables.strategies(table), *tables.frameworks(table), *breakdown.comparisons(table), *predict.comparisons(table)]


def for_documents(results: Path, table: pd.DataFrame) -> list[Comparison]:
    """Every table that a document may ask for."""
    accounts = [make(found) for found in explained.kept(results) for make in (explained.by_kind, explained.by_layer)]
    return [*report_of(table), *tables.of_the_table(), *accounts]
