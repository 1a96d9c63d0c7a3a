"""A results folder, read once: however many tables, pages and figures a command makes, each file is
parsed at most once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from framebench.analysis import answers, frames
from framebench.analysis.searches import Searches, load_searches
from framebench.analysis.selection import select_records
from framebench.records import provenance, store
from framebench.records.record import Record

if TYPE_CHECKING:
    import pandas as pd


class NoRecords(LookupError):
    """There is nothing to show; the message names the folder and says what to do."""


class UnknownMachine(LookupError):
    """A machine that no record is of; the message lists those there are."""


class Results:
    """What lies under `root`, of all machines or of those in `only`."""

    def __init__(self, root: Path, only: Collection[str] | None = None) -> None:
        self.root = root
        self.only = only
        self._tables: dict[tuple[str, str], pd.DataFrame] = {}

    def _includes(self, machine: str) -> bool:
        """Return whether the machine is one of those that are shown."""
        return self.only is None or machine in self.only

    @cached_property
    def files(self) -> list[tuple[str, Record]]:
        """Return every readable record with its file; the others are named in a RecordWarning."""
        every = store.read_files(self.root)
        return [
            (name, record) for name, record in every if self._includes(record.provenance.machine)
        ]

    @classmethod
    def committed(cls, root: Path) -> Results:
        """Return the results of the machines whose records git tracks, or of all where git knows
        none.

        Documents are made of these, whatever else was measured here since.
        """
        listing = provenance.query_git("ls-files", "--", str(root.absolute() / "records")) or ""
        machines = set()
        for line in listing.splitlines():
            if line.startswith("results/records/"):
                machines.add(Path(line).parts[2])
        return cls(root, machines or None)

    @property
    def records(self) -> list[Record]:
        """Return every readable record."""
        return [record for _, record in self.files]

    def of_machine(self, name: str) -> list[Record]:
        """Return the records of one machine."""
        return [record for record in self.records if record.provenance.machine == name]

    @cached_property
    def machines(self) -> list[str]:
        """Return the machines that have records, the one with the most first; no file is opened.

        Raises OSError for a folder that cannot be read.
        """
        where = self.root / "records"
        try:
            folders = [
                entry.name
                for entry in os.scandir(where)
                if entry.is_dir() and self._includes(entry.name)
            ]
        except (FileNotFoundError, NotADirectoryError):
            folders = []
        counts = {name: len(store.list_files(where / name)) for name in folders}
        with_records = [name for name in folders if counts[name]]
        return sorted(with_records, key=lambda name: (-counts[name], name))

    def machine(
        self, named: str | None = None, answers: Callable[[str], bool] | None = None
    ) -> str:
        """Return the machine that is named, or else the first whose records answer what is asked.

        This machine comes first, then the one with the most records, which is the published one.
        `answers` says whether a machine's records do; if none does, or without it, the first
        machine is returned. Raises BadMachine, NoRecords, and UnknownMachine with the names there
        are.
        """
        here = provenance.read_machine_name()
        if not self.machines:
            problem = (
                f"no records under {self.root}"
                if self.root.is_dir()
                else (f"{self.root} is no folder")
            )
            hint = (
                "name the folder that has records/ in it, or measure first: framebench run, or "
                "make bench"
            )
            raise NoRecords(f"{problem}; {hint}")
        if named is not None and named not in self.machines:
            raise UnknownMachine(
                f"no records of machine {named!r} under {self.root}; machines: "
                f"{', '.join(sorted(self.machines))}"
            )
        if named is not None:
            return named
        in_order = sorted(self.machines, key=lambda name: name != here)
        return next(filter(answers, in_order), in_order[0])

    def answering(self, machines: Sequence[str]) -> pd.DataFrame:
        """Return a row for each case, from the first of these machines that can answer
        (`answers.select_rows`).
        """
        every = []
        for name in machines:
            records = select_records(self.of_machine(name))
            every.append(frames.make_rows(record for record in records if record.parsed.ranks == 1))
        return frames.make_frame_of_rows(answers.select_rows(every))

    @cached_property
    def searches(self) -> Searches:
        """Return the searches for the largest batch under a limit, of every machine."""
        return Searches(
            fit for fit in load_searches(self.root) if self._includes(fit.provenance.machine)
        )

    def table(
        self, machine: str | None = None, versions: Literal["one", "all"] = "one"
    ) -> pd.DataFrame:
        """Return what `framebench.load` does."""
        if versions not in ("one", "all"):
            raise ValueError(f"versions={versions!r}; choose from: 'one', 'all'")
        chosen = self.machine(machine)
        if (chosen, versions) not in self._tables:
            self._tables[chosen, versions] = self._table(chosen, versions)
        return self._tables[chosen, versions].copy()

    def _table(self, chosen: str, versions: str) -> pd.DataFrame:
        """Return the table of one machine; raises NoRecords."""
        records = (
            select_records(self.of_machine(chosen))
            if versions == "one"
            else self.of_machine(chosen)
        )
        if not records:
            raise NoRecords(f"no record of machine {chosen} under {self.root} can be read")
        return frames.make_frame(records)
