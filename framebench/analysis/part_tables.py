"""The parts of measured peaks (`framebench.analysis.breakdown`), a table for each comparison."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from framebench.analysis.breakdown import EXPLAINED, PARTS, split_peaks
from framebench.analysis.comparison import ESSENTIAL, MIB, Comparison, Shown
from framebench.analysis.tables import describe_conditions, list_instruments

SHOWN = {
    "framework": Shown("framework"),
    "strategy": Shown("strategy", priority=ESSENTIAL),
    "step_bytes": Shown("peak", ",.1f", 1 / MIB, priority=ESSENTIAL),
    **{name: Shown(name, ",.1f", 1 / MIB) for name in (*PARTS, "rest")},
    "peak_over_bound": Shown("peak / lower bound", ".2f"),
}


def make_part_tables(table: pd.DataFrame) -> Iterator[Comparison]:
    """Yield a table for each machine, workload, size, scenario and batch."""
    split = split_peaks(table)
    for key, group in split.groupby(["machine", "workload", "size", "scenario", "batch"]):
        machine, workload, size, scenario, batch = key
        instruments = list_instruments(group, "step_instrument")
        yield Comparison(
            f"Where the peak goes: {workload} {scenario}, batch {batch}, size {size}",
            f"MiB, peaks by {instruments}. The parts sum to the lower bound; rest: the measured "
            f"peak less the lower bound ({EXPLAINED}). {describe_conditions(group)}",
            group,
            SHOWN,
            machine=str(machine),
            cases=tuple(group["case"]),
        )
