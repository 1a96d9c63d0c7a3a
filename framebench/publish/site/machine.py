"""What one machine measured, as the pages need it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from framebench.analysis import frames
from framebench.analysis.results import Results
from framebench.analysis.selection import select_records
from framebench.records.record import Record, get_measurement_time
from framebench.suite.sequences import group_by


@dataclass(frozen=True)
class Machine:
    """The records of one machine, newest first, and as tables."""

    name: str
    records: list[Record]
    results: Results  # the folder of the records

    @cached_property
    def table(self) -> pd.DataFrame:
        """Return a row for each case and framework version."""
        blocks = frames.make_blocks(self.results.get_records(self.name))
        return frames.make_frame(self.records, self.results.searches, blocks)

    @cached_property
    def shown(self) -> pd.DataFrame:
        """Return the rows that tables show: of one version of each framework.

        It is the pinned version, or else the one that was measured last.
        """
        blocks = frames.make_blocks(select_records(self.results.get_records(self.name)))
        return frames.make_frame(select_records(self.records), self.results.searches, blocks)

    @cached_property
    def page_rows(self) -> dict[str, pd.Series]:
        """Return by case the row that its page shows: that of the pinned version, if there is one.

        Cases over ranks are left out: they are in no table and have no page.
        """
        page_rows = {}
        for table in (self.table, self.shown):  # rows of the pinned version replace the others
            for _, row in table.iterrows():
                page_rows[row["case"]] = row
        return page_rows


def list_machines(records: list[Record], results: Results) -> list[Machine]:
    """Return each machine with its records, the one with the most records first."""
    newest_first = sorted(records, key=get_measurement_time, reverse=True)
    records_by_machine = group_by(newest_first, lambda record: record.provenance.machine)
    machines = []
    for name, machine_records in records_by_machine.items():
        machines.append(Machine(name, machine_records, results))
    return sorted(machines, key=lambda machine: len(machine.records), reverse=True)
