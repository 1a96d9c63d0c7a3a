"""Tables of strategies by batch, on which savings and costs may depend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from framebench.analysis.rendering import DETAIL, ESSENTIAL, MIB, Table, TableColumn
from framebench.analysis.tables import describe_conditions, describe_measurement, join_values
from framebench.strategies.registry import find_baseline

DEPENDS = 0.05  # a share of the baseline's peak that moves by more from batch to batch is noted
QUESTION = ["machine", "workload", "scenario", "size"]
ROW = ["framework", "strategy"]
QUANTITIES = {
    "relative_peak": TableColumn("peak x base", ".2f", priority=ESSENTIAL),
    "relative_throughput": TableColumn("throughput x base", ".2f"),
    "step_bytes": TableColumn("peak", ",.1f", 1 / MIB, unit="MiB", priority=DETAIL),
}


def make_batch_tables(df: pd.DataFrame) -> Iterator[Table]:
    """Yield a table for each machine, workload, scenario and size with several batches.

    Its rows are framework x strategy, its columns are the peak, the peak over the baseline's and
    the throughput over the baseline's at each batch.
    """
    for _, group in df.groupby(QUESTION, sort=False):
        several = select_several(group)
        if not several["baseline"].all():
            yield make_batch_table(several)


def select_several(group: pd.DataFrame) -> pd.DataFrame:
    """Return the strategies that have numbers, and a baseline, at two batches or more."""
    compared = group[group["usable"] & group["relative_peak"].notna()]
    counts = compared.groupby(ROW)["batch"].transform("nunique")
    return compared[counts > 1]


def make_batch_table(group: pd.DataFrame) -> Table:
    """Return the table of one workload, scenario and size on one machine."""
    first = group.iloc[0]
    wide = group.pivot(index=ROW, columns="batch", values=list(QUANTITIES))
    # `pivot` sorts by name: go back to the catalog's order
    wide = wide.reindex(pd.MultiIndex.from_frame(group[ROW].drop_duplicates()))
    wide = wide.dropna(axis=1, how="all")  # such as throughputs where nothing was timed
    shown = {name: TableColumn(name, priority=ESSENTIAL) for name in ROW}
    quantities = wide.columns.get_level_values(0)
    batches = wide.columns.get_level_values("batch")
    for quantity, batch in zip(quantities, batches):
        column = QUANTITIES[quantity]
        shown[f"{quantity} {batch}"] = replace(column, name=f"b{batch}: {column.name}")
    base = f"base: {find_baseline(first['scenario'])} of the same framework at the same batch."
    return Table(
        f"{first['workload']} {first['scenario']} by batch, size {first['size']}",
        f"{base} Peaks by {join_values(group['step_instrument'])}. {describe_measurement(group)} "
        f"{describe_conditions(group)}",
        wide.reset_index().set_axis(list(shown), axis=1),
        shown,
        notes=tuple(describe_dependence(group)),
        machine=first["machine"],
    )


def describe_dependence(group: pd.DataFrame) -> list[str]:
    """Return a line for each strategy whose share of the baseline's peak depends on the batch.

    The one that depends most comes first.
    """
    lines = []
    strategies = group[~group["baseline"]].groupby(ROW, sort=False)
    for (framework, strategy), rows in strategies:
        by_batch = rows.set_index("batch")["relative_peak"].sort_index()
        change = by_batch.max() - by_batch.min()
        if change <= DEPENDS:
            continue
        shares = ", ".join(f"{share:.0%} at batch {batch}" for batch, share in by_batch.items())
        line = f"{framework} {strategy} depends on the batch: {shares} of the baseline's peak"
        lines.append((change, line))
    return [line for _, line in sorted(lines, reverse=True)]
