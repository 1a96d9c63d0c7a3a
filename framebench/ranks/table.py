"""What each rank of a case over several holds and needs: the fullest and the emptiest, never a
sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

import pandas as pd

from framebench.analysis.frames import make_rows
from framebench.analysis.rendering import DETAIL, ESSENTIAL, MIB, Table, TableColumn
from framebench.analysis.selection import select_cases, select_current, select_one_version
from framebench.ranks.sharding import PARTS
from framebench.records.record import Record
from framebench.strategies.registry import OVER_RANKS
from framebench.strategies.strategy import FRAMEWORKS


def say_yes(is_so: bool) -> str:
    """Return a truth value as it is printed: what is not so stands out."""
    return "yes" if is_so else "NO"


SIZE = TableColumn("", ",.1f", 1 / MIB)
SHOWN = {
    "workload": TableColumn("workload"),
    "framework": TableColumn("framework"),
    "strategy": TableColumn("strategy", priority=ESSENTIAL),
    "batch": TableColumn("batch"),
    "ranks": TableColumn("ranks"),
    **{name: replace(SIZE, name=name) for name in PARTS},
    "fullest_rank_bytes": replace(SIZE, name="fullest peak"),
    "emptiest_rank_bytes": replace(SIZE, name="emptiest peak"),
    "predicted_bytes": replace(SIZE, name="predicted"),
    "off": TableColumn("predicted / measured - 1", "+.1%"),
    "verified": TableColumn("verified", say_yes, priority=DETAIL),
    "effect_proven": TableColumn("effect", say_yes, priority=DETAIL),
    "peak_instrument": TableColumn("instrument"),
}
CAPTION = (
    "MiB (2^20 bytes) of one rank: what it holds between two steps, counted from its storages (the "
    "most that any rank does); its peak in a step. Predicted: by framebench predict, without "
    "running. JAX's is a device's plan: all of them are in one process unless the strategy says "
    "otherwise; gradients live inside its step. DeepSpeed drops gradients after the update: they "
    "are those that it starts from. "
)


class TableKey(NamedTuple):
    """What all rows of one table have in common."""

    machine: str
    scenario: str
    size: str


def make_tables(records: Iterable[Record]) -> Iterator[Table]:
    """Yield a table for each machine, scenario and size that has cases over ranks."""
    of_ranks = [
        record for record in select_one_version(select_current(records)) if record.parsed.ranks > 1
    ]
    memory_records = {}
    for measured in select_cases(of_ranks):
        memory_records[measured.newest.provenance.machine, measured.newest.case] = measured.read
    table_rows = []
    for row in make_rows(of_ranks):
        record = memory_records[row.machine, row.case]
        table_rows.append({**vars(row), **find_largest_parts(record)})
    table_rows.sort(key=rank_row)
    for key, group in groupby(table_rows, find_table):
        table = pd.DataFrame(list(group))
        table["off"] = (
            table["predicted_bytes"].astype(float) / table["fullest_rank_bytes"].astype(float) - 1
        )
        versions = sorted(set(table["framework"] + " " + table["framework_version"].fillna("-")))
        yield Table(
            f"Over ranks: {key.scenario}, size {key.size}",
            f"{CAPTION}Machine {key.machine}; {', '.join(versions)}.",
            show_status(table),
            SHOWN,
            left=3,
            machine=key.machine,
            cases=tuple(table["case"]),
        )


def find_table(row: dict[str, object]) -> TableKey:
    """Return the table that a row belongs to."""
    return TableKey(str(row["machine"]), str(row["scenario"]), str(row["size"]))


def rank_row(row: dict[str, object]) -> tuple[object, ...]:
    """Return the place of a row: by table, then in the order of the catalog.

    Combinations follow their strategy.
    """
    names = [name for _, name in OVER_RANKS]
    strategy = str(row["strategy"])
    # of a combination such as checkpoint+fsdp one part is over ranks; of another version's, none
    places = [names.index(part) for part in strategy.split("+") if part in names]
    place = max(places, default=len(names))
    framework = FRAMEWORKS.index(str(row["framework"]))
    return find_table(row), row["workload"], framework, place, strategy, row["ranks"]


def find_largest_parts(record: Record) -> dict[str, int | None]:
    """Return the most that any rank holds of each part, in bytes; None if none holds any."""
    largest: dict[str, int | None] = {}
    for name in PARTS:
        sizes = [rank.held[name] for rank in record.ranks if name in rank.held]
        largest[name] = max(sizes, default=None)
    return largest


def show_status(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the status of a case without numbers in the place of the first one."""
    shown = table.astype(object)  # a column of numbers takes no text
    shown.loc[shown["status"] != "ok", "parameters"] = shown["status"]
    return shown
