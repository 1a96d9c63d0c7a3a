"""A results folder, read once: every record file is parsed at most once for a whole command."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from analysis import frames
from framebench.records import provenance, store
from framebench.records.record import Record

if TYPE_CHECKING:
    import pandas as pd


class NoRecords(LookupError):
    """There is nothing to show; the message names the folder and the way out."""


class UnknownMachine(LookupError):
    """A machine that no record is of; the message lists those there are."""


class Results:
    """The records under `root`, and which machine is meant where none is named."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @cached_property
    def records(self) -> list[Record]:
        """Every readable one; the others are named in a RecordWarning."""
        with frames.collector_paused():
            return list(store.read_all(self.root))

    @cached_property
    def machines(self) -> list[str]:
        """Those that have records, the one with the most first; by the folders' names, so that no file is opened."""
        where = self.root / "records"
        counts = Counter(path.relative_to(where).parts[0] for path in where.rglob("*.json"))
        return sorted(counts, key=lambda name: (-counts[name], name))

    def machine(self, named: str | None = None) -> str:
        """The machine that is named; or else this one, if it has records; or else the one with the most.

        Raises NoRecords, and UnknownMachine with the names there are.
        """
        if not self.machines:
            raise NoRecords(f"no records under {self.root}; measure first: framebench run, or make bench")
        if named is not None and named not in self.machines:
            there = ", ".join(sorted(self.machines))
            raise UnknownMachine(f"no records of machine {named!r} under {self.root}; machines: {there}")
        here = provenance.machine_name()
        return named or (here if here in self.machines else self.machines[0])

    def table(self, machine: str | None = None, versions: Literal["one", "all"] = "one") -> pd.DataFrame:
        """What `analysis.load` returns."""
        chosen = self.machine(machine)
        rows = frames.latest(r for r in self.records if r.provenance.machine == chosen)
        if not rows:
            raise NoRecords(f"no record of {chosen} under {self.root} can be read")
        table = frames.frame(rows)
        table = frames.current(table) if versions == "one" else table
        return frames.tidy(table[table["protocol"] == table["protocol"].max()])
