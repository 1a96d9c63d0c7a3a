"""Everything that the records say, as tables: what `framebench report` prints and the documents show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from framebench import extensions
from framebench.analysis import frames, tables
from framebench.analysis.comparison import Comparison
from framebench.analysis.reports import support
from framebench.analysis.reports.documents import Generated
from framebench.analysis.results import Results
from framebench.analysis.selection import counting, of_one_version
from framebench.records.record import Record

if TYPE_CHECKING:
    import pandas as pd


def report_of(table: pd.DataFrame) -> list[Comparison]:
    """Every comparison that the rows of strategies in use give; of one version of each framework."""
    table = tables.used(table)
    ours = [*tables.strategies(table), *tables.frameworks(table)]
    return [*ours, *(comparison for of_rows in extensions.every("tables") for comparison in of_rows(table))]


def of_records(all_records: Sequence[Record], results: Path) -> list[Comparison]:
    """The same of these records, the strategies only for claims, and what features add of them."""
    table = frames.frame(of_one_version(counting(all_records)))
    more = [comparison for report in extensions.every("report") for comparison in report(all_records, results)]
    return [*report_of(table), *tables.claim_arms(table), *more]


def generated(results: Results, of_all: Sequence[Comparison] | None = None) -> list[Generated]:
    """Everything that a document may ask for, of every machine. `of_all`: `of_records` of all, where they were made before."""
    return [*for_documents(results, of_all), *(said for words in extensions.every("words") for said in words(results))]


def for_documents(results: Results, of_all: Sequence[Comparison] | None = None) -> list[Comparison]:
    """The tables among them."""
    caption = "Generated from framebench/analysis/frames.py. A ratio, a share and a text have no unit."
    columns = Comparison.of_text(
        "Columns of framebench.load()", caption, frames.Column._fields, frames.COLUMNS, left=len(frames.Column._fields)
    )
    every = [columns, *support.every_table()]
    more = [comparison for documents in extensions.every("documents") for comparison in documents(results)]
    return [*(of_records(results.records, results.root) if of_all is None else of_all), *every, *more]
