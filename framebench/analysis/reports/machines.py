"""What each machine measured: which one to take for a plot, and machines next to each other."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from framebench.analysis.frames import Row, make_frame_of_rows
from framebench.analysis.rendering import ESSENTIAL, MIB, Table, TableColumn
from framebench.analysis.results import Results
from framebench.analysis.statistics import FEWEST_BLOCKS

SERIES = ["workload", "framework", "scenario", "strategy", "size"]
BATCHES = 3  # the fewest that make a curve
COLUMNS = {
    "machine": TableColumn("machine"),
    "sizes": TableColumn("sizes"),
    "cases": TableColumn("cases", ",.0f"),
    "usable": TableColumn("usable", ",.0f"),
    "timed": TableColumn("timed", ",.0f"),
    "peak_curves": TableColumn("peak at 3 batches", ",.0f"),
    "time_curves": TableColumn("throughput at 3 batches", ",.0f"),
    "releases": TableColumn("several releases"),
}


def make_table(results: Results) -> Table:
    """Return a row for each machine, the one with the most records first."""
    rows = [describe_machine(results, machine) for machine in results.machines]
    return Table(
        "What each machine measured",
        "Cases with a record, those with usable numbers, and those of them with times. At 3 "
        "batches or more: strategies of a workload, framework, scenario and size; throughput "
        f"counts batches that were timed in {FEWEST_BLOCKS} blocks or more, so that ratios have an "
        "interval. Releases of frameworks of which it has more than one.",
        pd.DataFrame(rows, columns=list(COLUMNS)),
        COLUMNS,
    )


def describe_machine(results: Results, machine: str) -> dict[str, object]:
    """Return the counts of one machine by column."""
    every_release = results.table(machine, "all")
    table = results.table(machine)
    usable = table[table["usable"]]
    timed = usable[usable["throughput"].notna()]
    releases = []
    for framework, rows in every_release.groupby("framework"):
        versions = rows["framework_version"].dropna().sort_values().unique()
        if len(versions) > 1:
            releases.append(f"{framework} {', '.join(versions)}")
    return {
        "machine": machine,
        "sizes": ", ".join(sorted(usable["size"].unique())),
        "cases": len(table),
        "usable": len(usable),
        "timed": len(timed),
        "peak_curves": count_curves(usable),
        "time_curves": count_curves(timed[timed["blocks"] >= FEWEST_BLOCKS]),
        "releases": "; ".join(releases) or None,
    }


def count_curves(rows: pd.DataFrame) -> int:
    """Return how many series have enough batches for a curve."""
    return int((rows.groupby(SERIES)["batch"].nunique() >= BATCHES).sum())


def compare_machines(rows: Sequence[Row]) -> list[Table]:
    """Return the peaks and the step times of these rows, a column for each machine.

    Only usable numbers are shown. Each instrument has a table of peaks, and each release a row.
    """
    df = make_frame_of_rows(rows)
    df = df[df["usable"]].astype({"framework_version": str})
    tables = []
    for instrument, peaks in df.groupby("step_instrument"):
        title = f"Peaks by {instrument}, in MiB"
        tables.append(pivot_machines(peaks, title, "step_bytes", 1 / MIB))
    timed = df[df["step_time_s"].notna()]
    if not timed.empty:
        tables.append(pivot_machines(timed, "Step times, in ms", "step_time_s", 1e3))
    return tables


def pivot_machines(df: pd.DataFrame, title: str, quantity: str, scale: float) -> Table:
    """Return a table of one quantity, multiplied by `scale`, with a column for each machine."""
    # a machine has one row of a case and release, so that the first is the only one
    wide = df.pivot_table(
        quantity,
        index=["case", "framework_version"],
        columns="machine",
        aggfunc="first",
        sort=False,
    )
    shown = {
        "case": TableColumn("case", priority=ESSENTIAL),
        "framework_version": TableColumn("release", priority=ESSENTIAL),
    }
    for machine in wide.columns:
        shown[machine] = TableColumn(machine, ",.1f", scale, priority=ESSENTIAL)
    return Table(title, "", wide.reset_index(), shown)
