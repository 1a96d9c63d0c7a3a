"""How well peaks at smaller batches predict that of the largest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from framebench.analysis.lower_bound import compute_lower_bound
from framebench.analysis.predict import PeakLine, fit_line
from framebench.analysis.rendering import (
    DETAIL,
    ESSENTIAL,
    MIB,
    Table,
    TableColumn,
    format_mib,
    is_missing,
)
from framebench.analysis.tables import describe_conditions
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.hypothetical import parse_any_batch

# one line is fitted to what agrees in all of these
ALIKE = [
    "machine",
    "workload",
    "framework",
    "framework_version",
    "scenario",
    "strategy",
    "size",
    "peak_instrument",
]


def _alike(table: pd.DataFrame, at_least: int) -> Iterator[pd.DataFrame]:
    """Measured peaks that differ in the batch alone, in its order; those with so many batches."""
    measured = table[
        (table["status"] == "ok") & table["peak_bytes"].notna() & table["framework_version"].notna()
    ]
    for _, group in measured.groupby(ALIKE):
        if group["batch"].nunique() >= at_least:
            yield group.sort_values("batch", kind="stable")


def through(group: pd.DataFrame) -> PeakLine:
    """The line through these peaks. Raises TooFew."""
    return fit_line(group["batch"].tolist(), group["peak_bytes"].tolist())


def held_out(table: pd.DataFrame) -> pd.DataFrame:
    """The peak at the largest batch against what the smaller ones predict: one row for each group
    with three batches or more.

    `error` is that of a line through the peaks, `error_over_bound` that of a line through what they
    exceed the lower bound by, which knows that gradients and activations need not be there
    together.
    """
    return pd.DataFrame([_held_out_of(group) for group in _alike(table, at_least=3)])


def _held_out_of(group: pd.DataFrame) -> pd.Series:
    cases = map(parse_any_batch, group["case"])
    bounds = np.array([float(compute_lower_bound(case).total) for case in cases])
    smaller_batches, last, peak = (
        group.iloc[:-1],
        group.iloc[-1],
        float(group["peak_bytes"].iloc[-1]),
    )
    line, batch = through(smaller_batches), int(group["batch"].iloc[-1])
    over = fit_line(line.batches, (smaller_batches["peak_bytes"] - bounds[:-1]).tolist())
    expected = line.predict(batch)
    prediction = {
        "known": line.batches,
        "fixed": line.fixed,
        "per_sample": line.per_sample,
        "predicted": expected.value,
        "low": expected.low,
        "high": expected.high,
        "error": expected.value / peak - 1,
        "error_over_bound": (over.predict(batch).value + bounds[-1]) / peak - 1,
    }
    return pd.concat([last, pd.Series(prediction, dtype=object)])


BYTES = TableColumn("", ",.1f", 1 / MIB)
SHOWN = {
    "workload": TableColumn("workload"),
    "framework": TableColumn("framework"),
    "strategy": TableColumn("strategy", priority=ESSENTIAL),
    "known": TableColumn("from batches", lambda batches: ", ".join(map(str, batches))),
    "batch": TableColumn("batch"),
    "fixed": replace(BYTES, name="fixed"),
    "per_sample": TableColumn("per sample", ",.2f", 1 / MIB),
    "predicted": replace(BYTES, name="predicted", priority=ESSENTIAL),
    "interval": TableColumn("95 % interval", priority=DETAIL),
    "peak_bytes": replace(BYTES, name="measured", priority=ESSENTIAL),
    "error": TableColumn("error", "+.1%", priority=ESSENTIAL),
    "error_over_bound": TableColumn("error, lower bound known", "+.1%"),
    "peak_instrument": TableColumn("instrument"),
}


def comparisons(table: pd.DataFrame) -> Iterator[Table]:
    """The held-out largest batch, for each machine, scenario and size."""
    predictions = held_out(table)
    if predictions.empty:
        return
    ends = zip(predictions["low"], predictions["high"])
    predictions = predictions.assign(
        interval=[
            "-" if is_missing(low) else f"{format_mib(low)} to {format_mib(high)}"
            for low, high in ends
        ],
        place=[FRAMEWORKS.index(framework) for framework in predictions["framework"]],
    )
    for (machine, scenario, size), group in predictions.groupby(["machine", "scenario", "size"]):
        yield Table(
            f"Prediction of the peak at the largest batch, {scenario}, size {size}",
            "MiB (2^20 bytes). A straight line through the peaks at the smaller batches predicts "
            "the largest. Interval: "
            "Student's t for one new measurement. Lower bound known: the line is fitted to what "
            "peaks exceed that bound by. "
            f"{describe_conditions(group)}",
            group.sort_values(["workload", "place", "strategy"]),
            SHOWN,
            left=4,
            machine=str(machine),
        )
