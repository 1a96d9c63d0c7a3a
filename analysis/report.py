"""Everything that the records say, as tables: what `framebench report` prints and the documents show."""

from __future__ import annotations

import pandas as pd

from analysis import breakdown, groundtruth, predict, tables
from analysis.tables import Comparison


def report_of(table: pd.DataFrame) -> list[Comparison]:
    """Every comparison that the rows give."""
    ours = [*tables.strategies(table), *tables.frameworks(table), *breakdown.comparisons(table), *predict.comparisons(table)]
    return [*ours, *groundtruth.comparisons(table)]
