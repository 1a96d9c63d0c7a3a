"""What one machine measured, as the pages need it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from framebench.analysis import frames, tables
from framebench.analysis.rendering import Table, TableColumn
from framebench.analysis.results import Results
from framebench.analysis.selection import get_measurement_time, select_records
from framebench.explain.table import load_causes
from framebench.models import spec
from framebench.publish.site import casepage
from framebench.publish.site.headlines import make_headlines
from framebench.publish.site.titles import get_title
from framebench.records.record import Record
from framebench.versions.judge import QuantityComparison, compare_successive
from framebench.versions.table import make_table

ALL_CASES_COLUMNS = ("shared_bytes", "relative_peak", "step_time_s", "relative", "effect_proven")


@dataclass(frozen=True)
class Machine:
    """What one machine measured: its records by case, newest first, and as tables."""

    name: str
    records_by_case: dict[str, list[Record]]
    results: Results  # that the records are from

    @cached_property
    def records(self) -> list[Record]:
        """Return all records of the machine."""
        return [record for records in self.records_by_case.values() for record in records]

    @cached_property
    def table(self) -> pd.DataFrame:
        """Return a row for each case and framework version."""
        return frames.make_frame(self.records, self.results.searches)

    @cached_property
    def shown(self) -> pd.DataFrame:
        """Return the rows of one version of each framework."""
        return frames.make_frame(select_records(self.records), self.results.searches)

    @cached_property
    def page_rows(self) -> dict[str, pd.Series]:
        """Return by case the row that its page shows.

        It is of the pinned version, where there are several. A case over ranks is in no table and
        has no page.
        """
        page_rows = {}
        for table in (self.table, self.shown):  # the pinned version's replace the others
            for _, row in table.iterrows():
                page_rows[row["case"]] = row
        return page_rows

    @cached_property
    def workloads(self) -> list[str]:
        """Return the workloads that were measured, in the order of tables."""
        measured = set(self.table["workload"])
        return [name for name in spec.list_workloads() if name in measured]

    @cached_property
    def headlines(self) -> tuple[Table, ...]:
        """Return the tables of the short answers."""
        return tuple(make_headlines(self.shown))

    @property
    def side_by_side(self) -> tuple[Table, ...]:
        """Return the tables that compare the frameworks' baselines."""
        return tuple(tables.make_framework_tables(self.shown))

    @cached_property
    def version_tables(self) -> list[Table]:
        """Return a table of each version against the one before it, where both have a case."""
        find_cause = load_causes(self.results.root)
        return [make_table(compared, find_cause) for compared in self.version_changes]

    @cached_property
    def version_changes(self) -> list[list[QuantityComparison]]:
        """Return what changed from each version to the next."""
        return list(compare_successive(self.records))

    @property
    def doubt(self) -> int:
        """Return 0 if the instruments were calibrated, 1 if not, 2 if any calibration failed."""
        calibrations = []
        for record in self.records:
            if record.provenance.calibration is not None:
                calibrations.append(record.provenance.calibration)
        if not calibrations:
            return 1
        return 0 if all(calibration.passed for calibration in calibrations) else 2

    @property
    def facts(self) -> Table:
        """Return the hardware and the versions of the machine's records."""
        moments = [get_measurement_time(record) for record in self.records]
        newest = max(self.records, key=get_measurement_time).provenance
        statuses = self.table["status"].value_counts().sort_index()
        return casepage.make_facts_table(
            "The machine",
            "As its newest record has it.",
            [
                *newest.hardware.items(),
                ("frameworks", list_versions(self.table)),
                ("cases by status", {str(name): int(count) for name, count in statuses.items()}),
                ("records", len(moments)),
                ("measured (UTC)", f"{min(moments):%Y-%m-%d} to {max(moments):%Y-%m-%d}"),
                ("calibration", frames.describe_calibration(newest.calibration)),
                ("threads", newest.threads),
            ],
        )

    @property
    def processor(self) -> str:
        """Return the GPU that the newest record was measured on, or else the processor."""
        hardware = max(self.records, key=get_measurement_time).provenance.hardware
        device = hardware.get("device", "cpu")
        if device != "cpu":
            return str(device)
        return str(hardware.get("cpu", "unknown processor"))

    @property
    def summary(self) -> str:
        """Return in one line on what, with which versions and when it was measured."""
        moments = [get_measurement_time(record) for record in self.records]
        days = f"{min(moments):%Y-%m-%d}"
        last_day = f"{max(moments):%Y-%m-%d}"
        if last_day != days:
            days += f" to {last_day}"
        shown = self.shown.assign(framework=self.shown["framework"].map(get_title))
        return f"{self.processor}; {', '.join(list_versions(shown))}; measured {days}."


def list_versions(table: pd.DataFrame) -> list[str]:
    """Return each framework of the rows with each of its versions: `torch 2.13.0`.

    Rows without a version are left out.
    """
    versions = set()
    for framework, version in zip(table["framework"], table["framework_version"]):
        # missing where a process died before it could name its version
        if isinstance(version, str):
            versions.add(f"{framework} {version}")
    return sorted(versions)


def list_machines(records: list[Record], results: Results) -> list[Machine]:
    """Return what each machine measured.

    One that was not calibrated comes late, one whose calibration failed last; among equals the one
    with most records comes first, which the ledger of claims shows too.
    """
    by_machine: dict[str, dict[str, list[Record]]] = {}
    for record in sorted(records, key=get_measurement_time, reverse=True):
        by_case = by_machine.setdefault(record.provenance.machine, {})
        by_case.setdefault(record.case, []).append(record)
    machines = [Machine(name, by_case, results) for name, by_case in by_machine.items()]
    return sorted(machines, key=lambda machine: (machine.doubt, -len(machine.records)))


def make_case_table(machine: Machine) -> Table:
    """Return every case of the machine in one table, for sorting and filtering."""
    columns = {name: tables.SHOWN[name] for name in ("framework", "strategy")}
    for name in ("workload", "scenario", "batch", *list_size_column(machine.table)):
        columns[name] = TableColumn(name)
    columns["framework_version"] = TableColumn("version")
    numbers = {name: tables.SHOWN[name] for name in ALL_CASES_COLUMNS}
    instruments = tables.describe_instruments(machine.table)
    return Table(
        "All cases",
        f"One record per case and version: the current one. {instruments} The page of a case has "
        "the framework's own counter, errors, blocks and the first step.",
        tables.make_cells(machine.table),
        columns | tables.select_columns(machine.table, numbers),
        left=len(columns),
        machine=machine.name,
        cases=tuple(machine.table["case"]),
    )


def list_size_column(df: pd.DataFrame) -> list[str]:
    """Return the column `size` where the rows have several sizes, or else none."""
    return ["size"] if df["size"].nunique() > 1 else []
