"""Tabulate what each rank of a case holds and needs: the fullest and the emptiest, never a sum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from framebench.analysis.frames import Row, make_rows
from framebench.analysis.rendering import DETAIL, ESSENTIAL, MIB, Table, TableColumn
from framebench.analysis.selection import select_cases, select_current, select_one_version
from framebench.analysis.tables import format_flag
from framebench.ranks.sharding import PARTS
from framebench.records.record import Record
from framebench.records.record_parts import Rank
from framebench.strategies.registry import OVER_RANKS
from framebench.strategies.strategy import FRAMEWORKS

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
    "verified": TableColumn("verified", format_flag, priority=DETAIL),
    "effect_proven": TableColumn("effect", format_flag, priority=DETAIL),
    "peak_instrument": TableColumn("instrument"),
}
ORDER = ["workload", "framework_index", "strategy_index", "strategy", "ranks"]
CAPTION = (
    "MiB (2^20 bytes) of one rank: what it holds between two steps, counted from its storages (the "
    "most that any rank does); its peak in a step. Predicted: by framebench predict, without "
    "running. JAX's is a device's plan: all of them are in one process unless the strategy says "
    "otherwise; gradients live inside its step. DeepSpeed drops gradients after the update: they "
    "are those that it starts from. "
)


def make_tables(records: Iterable[Record]) -> Iterator[Table]:
    """Yield a table for each machine, scenario and size that has cases over ranks."""
    current = select_one_version(select_current(records))
    rank_records = [record for record in current if record.parsed.ranks > 1]
    if not rank_records:
        return
    ranks_by_case = {}
    for measured in select_cases(rank_records):
        newest = measured.newest  # it may have failed, and have no ranks: the shown record has them
        ranks_by_case[newest.provenance.machine, newest.case] = measured.record.ranks
    rows = []
    for row in make_rows(rank_records):
        rows.append(make_fields(row, ranks_by_case[row.machine, row.case]))
    df = pd.DataFrame(rows).sort_values(ORDER)
    predicted = df["predicted_bytes"].astype(float)
    df["off"] = predicted / df["fullest_rank_bytes"].astype(float) - 1
    for (machine, scenario, size), group in df.groupby(["machine", "scenario", "size"]):
        versions = group["framework"] + " " + group["framework_version"].fillna("-")
        cells = group.astype(object)  # a column of numbers takes no text
        # a case without numbers has its status in the first column of numbers
        cells.loc[cells["status"] != "ok", "parameters"] = cells["status"]
        yield Table(
            f"Over ranks: {scenario}, size {size}",
            f"{CAPTION}Machine {machine}; {', '.join(sorted(versions.unique()))}.",
            cells,
            SHOWN,
            left=3,
            machine=str(machine),
            cases=tuple(group["case"]),
        )


def make_fields(row: Row, ranks: Sequence[Rank]) -> dict[str, Any]:
    """Return the values of a case's row by column, and of the columns that order the rows.

    Of each of PARTS the value is the most bytes that any rank has.
    """
    fields = vars(row).copy()
    for part in PARTS:
        sizes = [rank.held[part] for rank in ranks if part in rank.held]
        fields[part] = max(sizes, default=None)
    fields["strategy_index"] = find_catalog_index(row.strategy)
    fields["framework_index"] = FRAMEWORKS.index(row.framework)
    return fields


def find_catalog_index(strategy: str) -> int:
    """Return the index of a strategy over ranks in the catalog.

    A combination such as checkpoint+fsdp has the index of its strategy over ranks. A strategy that
    the catalog does not have comes last.
    """
    names = strategy.split("+")
    catalog = [name for _scenario, name in OVER_RANKS]
    indices = [index for index, name in enumerate(catalog) if name in names]
    return max(indices, default=len(catalog))
