"""Make tables of strategies by batch, since savings and costs may depend on the batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from framebench.analysis.frames import read_ratios
from framebench.analysis.needs import format_needs
from framebench.analysis.rendering import ESSENTIAL, IN_SHORT, Table, TableColumn, read_columns
from framebench.analysis.statistics import Ratio
from framebench.analysis.tables import (
    describe_base,
    describe_briefly,
    describe_conditions,
    describe_measurement,
    describe_recomputation,
    join_values,
    select_quick,
)

# if a share of the baseline's peak changes by more from batch to batch, a note says so
NOTED_CHANGE = 0.05
STRATEGY_COLUMNS = ["framework", "strategy"]
QUANTITIES = read_columns("batches")
# quantities of the table that stands among prose
SHORT_QUANTITIES = read_columns("batches, in short", needs_bytes=format_needs)


def make_batch_tables(df: pd.DataFrame) -> Iterator[Table]:
    """Yield two tables for each machine, workload, scenario and size with several batches.

    Their rows are framework x strategy. The columns of the first are the peak over the baseline's,
    the throughput over the baseline's, and the peak at each batch. The second, in short, has what a
    job needs and the throughput, of the quick profile's strategies.
    """
    for _, group in df.groupby(["machine", "workload", "scenario", "size"], sort=False):
        several = select_strategies_at_several_batches(group)
        if several["baseline"].all():
            continue
        caption = (
            f"{describe_base(several).removesuffix('.')} at the same batch. Peaks by "
            f"{join_values(several['step_instrument'])}. Throughput x base is followed by its 95 % "
            "interval; ~ marks a ratio of fewer than three blocks, which has none. "
            f"{describe_measurement(several)} "
            f"{describe_conditions(several)}"
        )
        notes = (*describe_dependence(several), *describe_recomputation(several))
        with_intervals = several.assign(relative_throughput=format_throughput_ratios(several))
        yield spread_batches(with_intervals, QUANTITIES, "", caption, notes)
        short = select_quick(several)
        if not short["baseline"].all():
            caption = (
                "needs: the peak, what the process keeps next to it, and 5 %. Throughput in "
                f"{join_values(short['unit'])}/s. {describe_briefly(short)}"
            )
            yield spread_batches(short, SHORT_QUANTITIES, IN_SHORT, caption)


def select_strategies_at_several_batches(group: pd.DataFrame) -> pd.DataFrame:
    """Return the comparable rows of strategies that have such rows at two batches or more.

    A row is comparable if its case has numbers, and its baseline has a peak to divide them by.
    """
    compared = group[group["usable"] & group["relative_peak"].notna()]
    counts = compared.groupby(STRATEGY_COLUMNS)["batch"].transform("nunique")
    return compared[counts > 1]


def format_throughput_ratios(group: pd.DataFrame) -> pd.Series:
    """Return each row's throughput over the baseline's, with its interval, or None without times.

    It is one over the ratio of step times, so that the ends of the interval change places.
    """
    texts: list[str | None] = []
    for is_baseline, ratio in zip(group["baseline"], read_ratios(group)):
        if ratio is None:
            texts.append(None)
        elif is_baseline:
            texts.append("1.00")
        elif ratio.low is None or ratio.high is None:
            texts.append(Ratio(1 / ratio.value).text)
        else:
            texts.append(Ratio(value=1 / ratio.value, low=1 / ratio.high, high=1 / ratio.low).text)
    return pd.Series(texts, group.index, dtype=object)


def spread_batches(
    group: pd.DataFrame,
    quantities: dict[str, TableColumn],
    addition: str,
    caption: str,
    notes: tuple[str, ...] = (),
) -> Table:
    """Return a row for each framework x strategy with each quantity at each batch.

    A quantity without any value is left out. `addition` is appended to the title.
    """
    wide = group.pivot(index=STRATEGY_COLUMNS, columns="batch", values=list(quantities))
    # `pivot` sorts by name: go back to the catalog's order
    wide = wide.reindex(pd.MultiIndex.from_frame(group[STRATEGY_COLUMNS].drop_duplicates()))
    wide = wide.dropna(axis=1, how="all")  # such as throughputs where nothing was timed
    shown = {name: TableColumn(name, priority=ESSENTIAL) for name in STRATEGY_COLUMNS}
    for name, batch in wide.columns.to_frame().to_numpy():
        column = quantities[name]
        shown[f"{name} {batch}"] = replace(column, name=f"b{batch}: {column.name}")
    first = group.iloc[0]
    return Table(
        f"{first['workload']} {first['scenario']} by batch, size {first['size']}{addition}",
        caption,
        wide.reset_index().set_axis(list(shown), axis=1),
        shown,
        notes=notes,
        machine=first["machine"],
    )


def describe_dependence(group: pd.DataFrame) -> list[str]:
    """Return a line for each strategy whose share of the baseline's peak depends on the batch.

    The one that depends most comes first.
    """
    changes_and_texts = []
    strategies = group[~group["baseline"]].groupby(STRATEGY_COLUMNS, sort=False)
    for (framework, strategy), rows in strategies:
        shares = rows.set_index("batch")["relative_peak"].sort_index()
        change = shares.max() - shares.min()
        if change <= NOTED_CHANGE:
            continue
        listed = []
        for batch, share in shares.items():
            listed.append(f"{share:.0%} at batch {batch}")
        text = f"{framework} {strategy} depends on the batch: "
        text += f"{', '.join(listed)} of the baseline's peak"
        changes_and_texts.append((change, text))
    changes_and_texts.sort(reverse=True)
    return [text for _change, text in changes_and_texts]
