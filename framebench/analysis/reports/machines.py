"""What each machine measured: which one to take for a plot, and machines next to each other."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from framebench.analysis.frames import Row, make_frame_of_rows
from framebench.analysis.rendering import ESSENTIAL, MIB, Table, TableColumn
from framebench.analysis.results import Results

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
        "batches or more: strategies of a workload, framework, scenario and size. Releases of "
        "frameworks of which it has more than one.",
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
        "time_curves": count_curves(timed),
        "releases": "; ".join(releases) or None,
    }


def count_curves(rows: pd.DataFrame) -> int:
    """Return how many series have enough batches for a curve."""
    return int((rows.groupby(SERIES)["batch"].nunique() >= BATCHES).sum())


def compare_machines(rows: Sequence[Row]) -> list[Table]:
    """Return the peaks and the step times of these rows, a column for each machine.

    Only usable numbers are shown, and no table without any. Peaks of two instruments, and numbers
    of two releases, are in rows of their own.
    """
    df = make_frame_of_rows(rows)
    df = df[df["usable"]].astype({"framework_version": str})
    times = {"case": TableColumn("case"), "framework_version": TableColumn("release")}
    peaks = times | {"step_instrument": TableColumn("instrument", priority=ESSENTIAL)}
    tables = []
    for title, quantity, labels, factor in (
        ("Peaks by machine, in MiB", "step_bytes", peaks, 1 / MIB),
        ("Step times by machine, in ms", "step_time_s", times, 1e3),
    ):
        measured = df[df[quantity].notna()]
        if measured.empty:
            continue
        # a machine has one row of each label, so that the first is the only one
        wide = measured.pivot_table(
            quantity, index=list(labels), columns="machine", aggfunc="first", sort=False
        ).reset_index()
        shown = dict(labels)
        for machine in wide.columns.drop(list(labels)):
            shown[machine] = TableColumn(machine, ",.1f", factor, priority=ESSENTIAL)
        tables.append(Table(title, "", wide, shown, left=len(labels)))
    return tables
