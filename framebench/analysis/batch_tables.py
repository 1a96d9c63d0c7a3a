"""Tables of strategies by batch, on which savings and costs may depend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from framebench.analysis.rendering import DETAIL, ESSENTIAL, MIB, Table, TableColumn
from framebench.analysis.tables import (
    describe_briefly,
    describe_conditions,
    describe_measurement,
    join_values,
    select_quick,
)
from framebench.strategies.registry import find_baseline

DEPENDS = 0.05  # a share of the baseline's peak that moves by more from batch to batch is noted
QUESTION = ["machine", "workload", "scenario", "size"]
ROW = ["framework", "strategy"]
QUANTITIES = {
    "relative_peak": TableColumn("peak x base", ".2f", priority=ESSENTIAL),
    "relative_throughput": TableColumn("throughput x base", ".2f"),
    "step_bytes": TableColumn("peak", ",.1f", 1 / MIB, unit="MiB", priority=DETAIL),
}
# of the table that stands among prose
SHORT_QUANTITIES = {
    "step_bytes": TableColumn("peak", ",.0f", 1 / MIB, unit="MiB", priority=ESSENTIAL),
    "throughput": TableColumn("throughput", ",.0f", priority=ESSENTIAL),
}


def make_batch_tables(df: pd.DataFrame) -> Iterator[Table]:
    """Yield two tables for each machine, workload, scenario and size with several batches.

    Their rows are framework x strategy. The columns of the first are the peak over the baseline's,
    the throughput over the baseline's, and the peak at each batch. The second, in short, has peak
    and throughput of the quick profile's strategies.
    """
    for _, group in df.groupby(QUESTION, sort=False):
        several = select_several(group)
        if not several["baseline"].all():
            yield make_batch_table(several)
            short = select_quick(several)
            if not short["baseline"].all():
                yield make_short_batch_table(short)


def select_several(group: pd.DataFrame) -> pd.DataFrame:
    """Return the strategies that have numbers, and a baseline, at two batches or more."""
    compared = group[group["usable"] & group["relative_peak"].notna()]
    counts = compared.groupby(ROW)["batch"].transform("nunique")
    return compared[counts > 1]


def make_batch_table(group: pd.DataFrame) -> Table:
    """Return the table of one workload, scenario and size on one machine."""
    base = f"base: {find_baseline(group['scenario'].iloc[0])} of the same framework"
    columns, shown = spread_batches(group, QUANTITIES)
    return Table(
        make_title(group),
        f"{base} at the same batch. Peaks by {join_values(group['step_instrument'])}. "
        f"{describe_measurement(group)} {describe_conditions(group)}",
        columns,
        shown,
        notes=tuple(describe_dependence(group)),
        machine=group["machine"].iloc[0],
    )


def make_short_batch_table(group: pd.DataFrame) -> Table:
    """Return the table of a few strategies with few columns, and a caption for among prose."""
    columns, shown = spread_batches(group, SHORT_QUANTITIES)
    return Table(
        f"{make_title(group)}, in short",
        f"Throughput in {join_values(group['unit'])}/s. {describe_briefly(group)}",
        columns,
        shown,
        machine=group["machine"].iloc[0],
    )


def make_title(group: pd.DataFrame) -> str:
    """Return the title of the table of one workload, scenario and size."""
    first = group.iloc[0]
    return f"{first['workload']} {first['scenario']} by batch, size {first['size']}"


def spread_batches(
    group: pd.DataFrame, quantities: dict[str, TableColumn]
) -> tuple[pd.DataFrame, dict[str, TableColumn]]:
    """Return a row for each framework x strategy with each quantity at each batch.

    Also return how its columns are printed, by name. A quantity that nothing has is left out.
    """
    wide = group.pivot(index=ROW, columns="batch", values=list(quantities))
    # `pivot` sorts by name: go back to the catalog's order
    wide = wide.reindex(pd.MultiIndex.from_frame(group[ROW].drop_duplicates()))
    wide = wide.dropna(axis=1, how="all")  # such as throughputs where nothing was timed
    shown = {name: TableColumn(name, priority=ESSENTIAL) for name in ROW}
    names = wide.columns.get_level_values(0)
    batches = wide.columns.get_level_values("batch")
    for name, batch in zip(names, batches):
        column = quantities[name]
        shown[f"{name} {batch}"] = replace(column, name=f"b{batch}: {column.name}")
    return wide.reset_index().set_axis(list(shown), axis=1), shown


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
