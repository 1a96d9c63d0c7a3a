"""Read a results folder: each file once, whatever tables and figures are made of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from framebench.analysis.searches import Searches, load_searches
from framebench.analysis.selection import select_records, select_single
from framebench.records import provenance, store
from framebench.records.lines import count_lines
from framebench.records.record import Record
from framebench.suite.case import TRIAL_SIZE

if TYPE_CHECKING:
    # imported only where a table is made: reading records is twice as fast without it
    import pandas as pd


# why a machine is asked before others; the first ones are asked first
CHOICES = ("this one", "with this processor", "")


class NoRecords(LookupError):
    """There is nothing to show; the message says why.

    `selector` names the cases that would have to be measured. It is empty where the message itself
    says what to do, or where measuring would not help.
    """

    def __init__(self, message: str, selector: str = "") -> None:
        """Keep the selector next to the message."""
        super().__init__(message)
        self.selector = selector


class UnknownMachine(LookupError):
    """A machine without records; the message lists the machines that have records."""


def suggest_first_run(root: Path) -> str:
    """Return the advice to measure, for a folder that lacks the records that are asked for."""
    option = provenance.repeat_results(root)
    if option:  # `make bench` measures into the default folder
        return f"measure first: framebench run{option}"
    return "measure first: framebench run, or make bench"


class Results:
    """The records and searches in the folder `root`, of all machines or of those in `only`."""

    def __init__(self, root: Path, only: Collection[str] | None = None) -> None:
        """Read nothing yet: files are read when they are asked for, and kept."""
        self.root = root
        self.only = only
        self._tables: dict[tuple[str, str], pd.DataFrame] = {}
        self._files: dict[str, list[tuple[str, Record]]] = {}

    @classmethod
    def committed(cls, root: Path) -> Results:
        """Return the results of the machines whose records git tracks, or of all if it tracks none.

        Documents are made of these, whatever else was measured here since.
        """
        listing = provenance.query_git("ls-files", "--", str(root.absolute() / "records")) or ""
        machines = set()
        for line in listing.splitlines():
            if line.startswith("results/records/"):
                machines.add(Path(line).parts[2])
        return cls(root, machines or None)

    def includes(self, machine: str) -> bool:
        """Return whether the machine is one of those that are shown."""
        return self.only is None or machine in self.only

    def read_machine(self, machine: str) -> list[tuple[str, Record]]:
        """Return the readable records of one machine with their places.

        The records of other machines are not read. Unreadable ones are named in a RecordWarning.
        """
        if machine not in self._files:
            places, records = [], []
            for place, record in store.read_files(self.root, machine):
                places.append(place)
                records.append(record)
            records = store.fill_calibrations(records, self.root, machine)
            self._files[machine] = list(zip(places, records, strict=True))
        return self._files[machine]

    def get_records(self, machine: str) -> list[Record]:
        """Return the records of one machine."""
        if not self.includes(machine):
            return []
        return [record for _, record in self.read_machine(machine)]

    @property
    def records(self) -> list[Record]:
        """Return every readable record."""
        records = []
        for machine in store.list_machines(self.root):
            records += self.get_records(machine)
        return records

    @cached_property
    def cases_by_place(self) -> dict[str, str]:
        """Return the case of each readable record by its place relative to the results folder."""
        cases = {}
        for machine in filter(self.includes, store.list_machines(self.root)):
            for place, record in self.read_machine(machine):
                cases[Path(place).relative_to(self.root).as_posix()] = record.case
        return cases

    @cached_property
    def first_records(self) -> dict[str, Record]:
        """Return the first readable record of each machine that has any.

        A folder that has only damaged or newer records is left out, since a command that chose it
        would have nothing to show. Raises OSError for a folder that cannot be read.
        """
        records = {}
        for name in filter(self.includes, store.list_machines(self.root)):
            files = store.list_files(self.root, name)
            first = next(filter(None, map(store.read_first_record, files)), None)
            if first is None:
                self.read_machine(name)  # warns of what cannot be read
            else:
                records[name] = first
        return records

    @cached_property
    def machines(self) -> list[str]:
        """Return the machines that have readable records, the one with the most lines first.

        Lines are counted instead of records, since to read them all takes long. Raises OSError for
        a folder that cannot be read.
        """
        counts = {}
        for name in self.first_records:
            counts[name] = sum(map(count_lines, store.list_files(self.root, name)))
        return sorted(counts, key=lambda name: counts[name], reverse=True)  # equal ones by name

    def order_machines(self, processor: str | None) -> list[str]:
        """Return the machines in the order in which they are asked: this machine comes first.

        Then come the machines with this `processor`, if it is not None, and then the others. Within
        each group the machine with the most records comes first.
        """

        def rank(machine: str) -> int:
            return CHOICES.index(self.explain_choice(machine, processor))

        return sorted(self.machines, key=rank)  # stable: within a group, most records come first

    def explain_choice(self, machine: str, processor: str | None) -> str:
        """Return why this machine is asked before others (CHOICES), or "" if it is not."""
        if machine == provenance.read_machine_name():
            return CHOICES[0]
        first = self.first_records.get(machine)
        is_alike = first is not None and first.cpu is not None and first.cpu == processor
        return CHOICES[1] if is_alike else ""

    def has_more_than_trials(self, machine: str) -> bool:
        """Return whether a machine has records of another size than `tiny`.

        A machine that FRAMEBENCH_MACHINE names is not asked: it is wanted whatever it has.
        """
        if os.environ.get("FRAMEBENCH_MACHINE") == machine:
            return True
        return any(record.parsed.size != TRIAL_SIZE for record in self.get_records(machine))

    def explain_absence(self) -> str:
        """Return why there is no machine with records, and what to do."""
        hint = f"name the folder that has records/ in it, or {suggest_first_run(self.root)}"
        if not self.root.is_dir():
            return f"{self.root} is no folder; {hint}"
        faults: list[store.BadRecord] = []
        for file in store.list_files(self.root):
            for _ in store.parse_record_file(file, faults.append):
                pass  # there is none that can be read
            if faults:
                return f"no record under {self.root} can be read, as {faults[0]}"
        return f"no records under {self.root}; {hint}"

    def choose_machine(
        self,
        named: str | None = None,
        answers: Callable[[str], bool] | None = None,
        processor: str | None = None,
    ) -> str:
        """Return the machine that is named, or else the first whose records answer.

        Machines are asked in the order of `order_machines`, and `answers` says whether a machine's
        records answer. If none do, or without `answers`, the first machine is returned. Raises
        BadMachine, NoRecords, and UnknownMachine with the names there are.
        """
        if not self.machines:
            raise NoRecords(self.explain_absence())
        if named is not None:
            if named not in self.machines:
                raise UnknownMachine(
                    f"no records of machine {named!r} under {self.root}; machines: "
                    f"{', '.join(sorted(self.machines))}"
                )
            return named
        in_order = self.order_machines(processor)
        answering = filter(answers, in_order) if answers else iter(in_order)
        return next(answering, in_order[0])

    @cached_property
    def searches(self) -> Searches:
        """Return the searches for the largest batch under a limit, of every machine.

        Where a folder of one's own has none of a framework, the published ones say what processes
        keep.
        """
        fits = [fit for fit in load_searches(self.root) if self.includes(fit.provenance.machine)]
        published = None
        if self.root.resolve() != provenance.PUBLISHED.resolve():
            published = Searches(load_searches(provenance.PUBLISHED))
        return Searches(fits, published)

    def make_answer_table(self, machines: Sequence[str]) -> pd.DataFrame:
        """Return a row for each case, from the first of these machines that can answer.

        The rule is in `answers.select_one_row_per_case`.
        """
        from framebench.analysis import answers, frames

        rows_of_machines = []
        for name in machines:
            records = select_single(select_records(self.get_records(name)))
            rows_of_machines.append(frames.make_rows(records, self.searches))
        return frames.make_frame_of_rows(answers.select_one_row_per_case(rows_of_machines))

    def table(
        self, machine: str | None = None, versions: Literal["one", "all"] = "one"
    ) -> pd.DataFrame:
        """Return the table of `framebench.load`. Raises LookupError, ValueError."""
        from framebench.analysis import frames

        if versions not in ("one", "all"):
            raise ValueError(f"versions={versions!r}; choose from: 'one', 'all'")
        name = self.choose_machine(machine)
        if (name, versions) not in self._tables:
            records = self.get_records(name)
            if versions == "one":
                records = select_records(records)
            self._tables[name, versions] = frames.make_frame(records, self.searches)
        # a copy, since a notebook may change what it gets
        return self._tables[name, versions].copy()

    def join_tables(self, versions: Literal["one", "all"]) -> pd.DataFrame:
        """Return the tables of all machines as one. Raises NoRecords."""
        import pandas as pd

        from framebench.analysis import frames

        self.choose_machine()
        tables = [self.table(name, versions) for name in self.machines]
        joined = pd.concat(tables, ignore_index=True)
        # categories that differ become text, which has no order
        joined["framework_version"] = frames.order_releases(joined["framework_version"])
        return joined
