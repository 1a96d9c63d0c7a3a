"""Make tables of everything that the records say, for `framebench report` and the documents."""

from __future__ import annotations

from collections.abc import Sequence

from framebench.analysis import batch_tables, frames, tables
from framebench.analysis.breakdown import make_part_tables
from framebench.analysis.rendering import Table
from framebench.analysis.reports import machines, support
from framebench.analysis.reports.documents import DocumentPart
from framebench.analysis.results import Results
from framebench.analysis.selection import select_records
from framebench.claims import show as claims
from framebench.devices import documents as devices
from framebench.devices.plans.store import read_every
from framebench.explain import tables as explain
from framebench.publish.sentences import in_words
from framebench.ranks import sharding_tables
from framebench.ranks import table as ranks
from framebench.records.record import Record
from framebench.versions import bisection_table as bisections
from framebench.versions import table as versions
from framebench.versions.judge import make_release_blocks
from framebench.versions.recorded import tabulate_recorded


def make_tables(records: Sequence[Record], results: Results) -> list[Table]:
    """Return every table of these records.

    Besides the strategies in use, there are tables of strategies only for claims, of cases over
    ranks and of versions. `results` is the folder of the records; its searches say what processes
    keep. Intervals are estimated from all records of a machine there, even if only some are shown.
    """
    machine_records = []
    for machine in sorted({record.provenance.machine for record in records}):
        machine_records += results.get_records(machine)
    machine_blocks = frames.make_blocks(select_records(machine_records))
    table = frames.make_frame(select_records(records), results.searches, machine_blocks)
    in_use = tables.select_in_use(table)
    return [
        *tables.make_strategy_tables(in_use),
        *batch_tables.make_batch_tables(in_use),
        *tables.make_framework_tables(in_use),
        *make_part_tables(in_use),
        *tables.make_claim_tables(table),
        *ranks.make_tables(records),
        *versions.make_report_tables(records, results.root, make_release_blocks(machine_records)),
    ]


def make_document_parts(results: Results, record_tables: Sequence[Table]) -> list[DocumentPart]:
    """Return everything that a document may show, of every machine: tables and sentences.

    `record_tables` are the tables of all records (`make_tables`).
    """
    return [*make_document_tables(results, record_tables), *in_words.describe_results(results)]


def make_document_tables(results: Results, record_tables: Sequence[Table]) -> list[Table]:
    """Return the tables that a document may show, those of all records among them."""
    return [
        *record_tables,
        tabulate_columns(),
        machines.make_table(results),
        *support.make_tables(),
        *claims.make_tables(results),
        *devices.make_documents(results),
        *explain.make_tables(results),
        *sharding_tables.make_tables(results.root),
        *bisections.make_documents(results),
        tabulate_recorded(results.records, read_every(results.root)),
    ]


def tabulate_columns() -> Table:
    """Return a table of the columns of `framebench.load()` with their units and meanings."""
    columns = frames.Column._fields
    return Table.of_text(
        "Columns of framebench.load()",
        "Generated from framebench/analysis/frames.py. A ratio, a share and a text have no unit.",
        columns,
        frames.COLUMNS,
        left=len(columns),
    )
