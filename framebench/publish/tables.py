"""Everything that the records say, as tables: what `framebench report` prints and the documents show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from framebench.analysis import batch_tables, frames, tables
from framebench.analysis.comparison import Comparison
from framebench.analysis.parts import table as parts
from framebench.analysis.reports import support
from framebench.analysis.reports.documents import Generated
from framebench.analysis.results import Results
from framebench.analysis.selection import counting, of_one_version
from framebench.claims import show as claims
from framebench.cluster import table as blocks
from framebench.devices import documents as devices
from framebench.explain import tables as explain
from framebench.publish.readme import in_words as readme
from framebench.ranks import sharding_tables
from framebench.ranks import table as ranks
from framebench.records.record import Record
from framebench.versions import bisection_table as bisections
from framebench.versions import table as versions

if TYPE_CHECKING:
    import pandas as pd


def report_of(table: pd.DataFrame) -> list[Comparison]:
    """Every comparison that the rows of strategies in use give; of one version of each framework."""
    table = tables.select_in_use(table)
    return [
        *tables.make_strategy_tables(table),
        *batch_tables.make_batch_tables(table),
        *tables.make_framework_tables(table),
        *behind(table),
    ]


def behind(table: pd.DataFrame) -> list[Comparison]:
    """Return the tables that explain those of strategies and frameworks, of the same rows."""
    return [*parts.comparisons(table)]


def of_records(all_records: Sequence[Record], results: Path) -> list[Comparison]:
    """The same of these records, the strategies only for claims, cases over ranks, and versions."""
    table = frames.frame(of_one_version(counting(all_records)))
    return [
        *report_of(table),
        *tables.make_claim_tables(table),
        *ranks.comparisons(all_records),
        *versions.make_report_tables(all_records, results),
    ]


def generated(results: Results, of_all: Sequence[Comparison] | None = None) -> list[Generated]:
    """Everything that a document may ask for, of every machine. `of_all`: `of_records` of all, where they were made before."""
    return [*for_documents(results, of_all), *readme.every(results)]


def for_documents(results: Results, of_all: Sequence[Comparison] | None = None) -> list[Comparison]:
    """The tables among them."""
    caption = "Generated from framebench/analysis/frames.py. A ratio, a share and a text have no unit."
    columns = Comparison.of_text(
        "Columns of framebench.load()", caption, frames.Column._fields, frames.COLUMNS, left=len(frames.Column._fields)
    )
    return [
        *(of_records(results.records, results.root) if of_all is None else of_all),
        columns,
        *support.make_tables(),
        *claims.make_tables(results),
        *blocks.make_tables(results.records),
        *devices.documents(results),
        *explain.documents(results),
        *sharding_tables.comparisons(results.root),
        *bisections.make_documents(results),
    ]
