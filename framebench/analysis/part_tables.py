"""The parts of measured peaks (`framebench.analysis.breakdown`), a table for each comparison."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from framebench.analysis.breakdown import EXPLAINED, PARTS, split_peaks
from framebench.analysis.rendering import ESSENTIAL, MIB, Table, TableColumn
from framebench.analysis.tables import describe_conditions, list_instruments

SHOWN = {
    "framework": TableColumn("framework"),
    "strategy": TableColumn("strategy", priority=ESSENTIAL),
    "step_bytes": TableColumn("peak", ",.1f", 1 / MIB, priority=ESSENTIAL),
    **{name: TableColumn(name, ",.1f", 1 / MIB) for name in (*PARTS, "rest")},
    "peak_over_bound": TableColumn("peak / lower bound", ".2f"),
}


def make_part_tables(table: pd.DataFrame) -> Iterator[Table]:
    """Yield a table for each machine, workload, size, scenario and batch."""
    split = split_peaks(table)
    for key, group in split.groupby(["machine", "workload", "size", "scenario", "batch"]):
        machine, workload, size, scenario, batch = key
        instruments = list_instruments(group, "step_instrument")
        yield Table(
            f"Where the peak goes: {workload} {scenario}, batch {batch}, size {size}",
            f"MiB, peaks by {instruments}. The parts sum to the lower bound; rest: the measured "
            f"peak less the lower bound ({EXPLAINED}). {describe_conditions(group)}",
            group,
            SHOWN,
            machine=str(machine),
            cases=tuple(group["case"]),
        )
