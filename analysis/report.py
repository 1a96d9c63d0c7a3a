"""Everything that the records say, as tables: what `framebench report` prints and the documents show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis import breakdown, predict, tables
from analysis.load import collector_paused
from analysis.tables import Comparison

if TYPE_CHECKING:
    import pandas as pd


@collector_paused()
def report_of(table: pd.DataFrame) -> list[Comparison]:
    """Every comparison that the rows give."""
    return [*tables.strategies(table), *tables.frameworks(table), *breakdown.comparisons(table), *predict.comparisons(table)]
