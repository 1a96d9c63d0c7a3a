"""Tables of strategies by batch: what a strategy saves, and what it costs, may depend on the
batch.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from framebench.analysis.comparison import DETAIL, ESSENTIAL, MIB, Comparison, Shown
from framebench.analysis.tables import describe_conditions, describe_measurement
from framebench.strategies.registry import find_baseline

DEPENDS = 0.05  # a share of the baseline's peak that moves by more from batch to batch is noted
QUESTION = ["machine", "workload", "scenario", "size"]
ROW = ["framework", "strategy"]


def make_batch_tables(df: pd.DataFrame) -> Iterator[Comparison]:
    """Yield a table for each machine, workload, scenario and size where strategies were measured at
    several batches.

    Its rows are framework x strategy, its columns are the peak, the peak over the baseline's and
    the throughput over the baseline's at each batch.
    """
    for _, group in df.groupby(QUESTION, sort=False):
        several = select_several(group)
        if not several["baseline"].all():
            yield make_batch_table(several)


def select_several(group: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of strategies that have numbers at two batches or more, next to the
    baseline's at each of these.
    """
    compared = group[group["usable"] & group["relative_peak"].notna()]
    counts = compared.groupby(ROW)["batch"].transform("nunique")
    return compared[counts > 1]


def make_batch_table(group: pd.DataFrame) -> Comparison:
    """Return the table of one workload, scenario and size on one machine."""
    first = group.iloc[0]
    quantities = {
        "relative_peak": Shown("peak x base", ".2f", priority=ESSENTIAL),
        "relative_throughput": Shown("throughput x base", ".2f"),
        "step_bytes": Shown("peak", ",.1f", 1 / MIB, unit="MiB", priority=DETAIL),
    }
    wide = group.pivot(index=ROW, columns="batch", values=list(quantities))
    in_order = list(dict.fromkeys(zip(group["framework"], group["strategy"])))
    wide = wide.reindex(in_order)
    shown = {}
    for quantity, column in quantities.items():
        for batch in sorted(group["batch"].unique()):
            if wide[quantity, batch].notna().any():
                heading = f"b{batch}: {column.name}"
                shown[f"{quantity} {batch}"] = Shown(
                    heading, column.form, column.times, column.unit, priority=column.priority
                )
    cells = wide.set_axis([" ".join(map(str, pair)) for pair in wide.columns], axis=1)
    base = f"base: {find_baseline(first['scenario'])} of the same framework at the same batch."
    return Comparison(
        f"{first['workload']} {first['scenario']} by batch, size {first['size']}",
        f"{base} Peaks by {describe_step_instruments(group)}. {describe_measurement(group)} "
        f"{describe_conditions(group)}",
        cells.reset_index(),
        {name: Shown(name, priority=ESSENTIAL) for name in ROW} | shown,
        notes=tuple(describe_dependence(group)),
        machine=first["machine"],
    )


def describe_step_instruments(group: pd.DataFrame) -> str:
    """Return who read the peaks."""
    return ", ".join(sorted(group["step_instrument"].dropna().unique()))


def describe_dependence(group: pd.DataFrame) -> list[str]:
    """Return a line for each strategy whose share of the baseline's peak depends on the batch, most
    first.
    """
    lines = []
    for (framework, strategy), rows in group[~group["baseline"]].groupby(ROW, sort=False):
        by_batch = rows.set_index("batch")["relative_peak"].sort_index()
        moved = by_batch.max() - by_batch.min()
        if moved > DEPENDS:
            shares = ", ".join(f"{share:.0%} at batch {batch}" for batch, share in by_batch.items())
            lines.append(
                (
                    moved,
                    f"{framework} {strategy} depends on the batch: {shares} of the baseline's peak",
                )
            )
    return [line for _, line in sorted(lines, reverse=True)]
