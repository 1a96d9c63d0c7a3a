"""A results folder, read once: however many tables, pages and figures a command makes, each file is parsed at most once."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from framebench.analysis import answers, frames
from framebench.analysis.searches import Searches, read
from framebench.analysis.selection import select
from framebench.records import provenance, store
from framebench.records.record import Record

if TYPE_CHECKING:
    import pandas as pd


class NoRecords(LookupError):
    """There is nothing to show; the message names the folder and the way out."""


class UnknownMachine(LookupError):
    """A machine that no record is of; the message lists those there are."""


class Results:
    """What lies under `root`, of all machines or of those in `only`, and which machine is meant where none is named."""

    def __init__(self, root: Path, only: Collection[str] | None = None) -> None:
        self.root, self.only = root, only
        self._tables: dict[tuple[str, str], pd.DataFrame] = {}

    def _meant(self, machine: str) -> bool:
        return self.only is None or machine in self.only

    @cached_property
    def files(self) -> list[tuple[str, Record]]:
        """Every readable record with its file; the others are named in a RecordWarning."""
        return [(name, r) for name, r in store.read_files(self.root) if self._meant(r.provenance.machine)]

    @classmethod
    def committed(cls, root: Path) -> Results:
        """Of the machines whose records git tracks: what documents are made of, whatever else was measured here since. All
        where git knows none."""
        listing = provenance.git("ls-files", "--", str(root.absolute() / "records")) or ""
        names = {Path(line).parts[2] for line in listing.splitlines() if line.startswith("results/records/")}
        return cls(root, names or None)

    @property
    def records(self) -> list[Record]:
        return [record for _, record in self.files]

    def of_machine(self, name: str) -> list[Record]:
        return [record for record in self.records if record.provenance.machine == name]

    @cached_property
    def machines(self) -> list[str]:
        """Those that have records, the one with the most first; by the folders' names, so that no file is opened.

        Raises OSError for a folder that cannot be read.
        """
        where = self.root / "records"
        try:
            folders = [entry.name for entry in os.scandir(where) if entry.is_dir() and self._meant(entry.name)]
        except (FileNotFoundError, NotADirectoryError):
            folders = []
        counts = Counter({name: len(store.files(where / name)) for name in folders})
        return sorted(filter(counts.get, counts), key=lambda name: (-counts[name], name))

    def machine(self, named: str | None = None, answers: Callable[[str], bool] = lambda name: True) -> str:
        """The machine that is named; or else this one, if its records answer what is asked; or else, of those whose records do,
        the one with the most, which is the published one. If none does, the one that comes first.

        Raises BadMachine, NoRecords, and UnknownMachine with the names there are.
        """
        here = provenance.machine_name()
        if not self.machines:
            problem = f"no records under {self.root}" if self.root.is_dir() else f"{self.root} is no folder"
            way_out = "name the folder that has records/ in it, or measure first: framebench run, or make bench"
            raise NoRecords(f"{problem}; {way_out}")
        if named is not None and named not in self.machines:
            raise UnknownMachine(
                f"no records of machine {named!r} under {self.root}; machines: {', '.join(sorted(self.machines))}"
            )
        in_order = sorted(self.machines, key=lambda name: name != here)
        return named or next(filter(answers, in_order), in_order[0])

    def answering(self, machines: Sequence[str]) -> pd.DataFrame:
        """A row for each case, from the first of these machines that can answer (`answers.answering`)."""
        every = [frames.rows(r for r in select(self.of_machine(name)) if r.parsed.ranks == 1) for name in machines]
        return frames.frame_of_rows(answers.answering(every))

    @cached_property
    def searches(self) -> Searches:
        """For the largest batch under a limit, on every machine."""
        return Searches(fit for fit in read(self.root) if self._meant(fit.provenance.machine))

    def table(self, machine: str | None = None, versions: Literal["one", "all"] = "one") -> pd.DataFrame:
        """What `framebench.load` returns."""
        if versions not in ("one", "all"):
            raise ValueError(f"versions={versions!r}; choose from: 'one', 'all'")
        chosen = self.machine(machine)
        if (chosen, versions) not in self._tables:
            self._tables[chosen, versions] = self._table(chosen, versions)
        return self._tables[chosen, versions].copy()

    def _table(self, chosen: str, versions: str) -> pd.DataFrame:
        records = select(self.of_machine(chosen)) if versions == "one" else self.of_machine(chosen)
        if not records:
            raise NoRecords(f"no record of machine {chosen} under {self.root} can be read")
        return frames.frame(records)
