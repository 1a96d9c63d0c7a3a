"""A results folder, each file of which is read once, whatever tables and figures are made of it."""

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

    def includes(self, machine: str) -> bool:
        """Return whether the machine is one of those that are shown."""
        return self.only is None or machine in self.only

    @cached_property
    def files(self) -> list[tuple[str, Record]]:
        """Return every readable record with its file; the others are named in a RecordWarning."""
        files = []
        for name, record in store.read_files(self.root):
            if self.includes(record.provenance.machine):
                files.append((name, record))
        return files

    @classmethod
    def committed(cls, root: Path) -> Results:
        """Return the results of the machines whose records git tracks, or of all where it has none.

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

    def explain_absence(self) -> str:
        """Return why there is no machine with records, and what to do."""
        hint = (
            "name the folder that has records/ in it, or measure first: framebench run, or "
            "make bench"
        )
        if not self.root.is_dir():
            return f"{self.root} is no folder; {hint}"
        for file in store.list_files(self.root / "records"):
            try:
                store.read(file)
            except store.BadRecord as error:
                return f"no record under {self.root} can be read, as {error}"
        return f"no records under {self.root}; {hint}"

    def get_records(self, machine: str) -> list[Record]:
        """Return the records of one machine."""
        return [record for record in self.records if record.provenance.machine == machine]

    @cached_property
    def machines(self) -> list[str]:
        """Return the machines that have readable records, the one with the most files first.

        A folder with nothing but damaged or newer files is no machine's: it would be chosen and
        then have nothing to show. Of each folder files are opened until one is a record. Raises
        OSError for a folder that cannot be read.
        """
        records = self.root / "records"
        try:
            folders = [
                entry.name for entry in os.scandir(records) if entry.is_dir(follow_symlinks=False)
            ]
        except (FileNotFoundError, NotADirectoryError):
            return []
        counts: dict[str, int] = {}
        for name in filter(self.includes, sorted(folders)):
            files = store.list_files(records / name)
            if any(store.is_record_of(file, name) for file in files):
                counts[name] = len(files)
        return sorted(counts, key=lambda name: counts[name], reverse=True)  # equal ones by name

    def choose_machine(
        self, named: str | None = None, answers: Callable[[str], bool] | None = None
    ) -> str:
        """Return the machine that is named, or else the first whose records answer.

        This machine comes first, then the one with the most records, which is the published one.
        `answers` says whether a machine's records do; if none do, or without it, the first
        machine is returned. Raises BadMachine, NoRecords, and UnknownMachine with the names there
        are.
        """
        here = provenance.read_machine_name()
        if not self.machines:
            raise NoRecords(self.explain_absence())
        if named is not None:
            if named not in self.machines:
                raise UnknownMachine(
                    f"no records of machine {named!r} under {self.root}; machines: "
                    f"{', '.join(sorted(self.machines))}"
                )
            return named
        # `sorted` is stable: behind this machine they stay in the order of their records
        in_order = sorted(self.machines, key=lambda name: name != here)
        if answers is not None:
            for name in in_order:
                if answers(name):
                    return name
        return in_order[0]

    def make_answer_table(self, machines: Sequence[str]) -> pd.DataFrame:
        """Return a row for each case, from the first of these machines that can answer.

        `answers.select_rows` has the rule.
        """
        rows_of_machines = []
        for name in machines:
            records = select_records(self.get_records(name))
            single = [record for record in records if record.parsed.ranks == 1]
            rows_of_machines.append(frames.make_rows(single, self.searches))
        return frames.make_frame_of_rows(answers.select_rows(rows_of_machines))

    @cached_property
    def searches(self) -> Searches:
        """Return the searches for the largest batch under a limit, of every machine."""
        fits = load_searches(self.root)
        return Searches(fit for fit in fits if self.includes(fit.provenance.machine))

    def table(
        self, machine: str | None = None, versions: Literal["one", "all"] = "one"
    ) -> pd.DataFrame:
        """Return the table of `framebench.load`. Raises NoRecords, UnknownMachine."""
        if versions not in ("one", "all"):
            raise ValueError(f"versions={versions!r}; choose from: 'one', 'all'")
        name = self.choose_machine(machine)
        if (name, versions) not in self._tables:
            records = self.get_records(name)
            if versions == "one":
                records = select_records(records)
            if not records:
                raise NoRecords(f"no record of machine {name} under {self.root} can be read")
            self._tables[name, versions] = frames.make_frame(records, self.searches)
        # a copy, since a notebook may change what it gets
        return self._tables[name, versions].copy()
