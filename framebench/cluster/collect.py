"""Put the records of several results folders into one: each once, none lost.

Equal machines get one name, unless they are to stay apart. Results of older versions of framebench,
which had a file for each record, are taken too. Searches for the largest batch and the results of
probes are collected with the records. The same records collected again change nothing. Two records
of one measurement with different contents are a conflict: what was there stays, and the other is
kept in `conflicts/`, which no table reads.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from framebench.cluster.collect_answers import add_answers, rename_origin
from framebench.engine.environments import Say
from framebench.engine.locks import hold_lock
from framebench.records import store
from framebench.records.provenance import LONGEST_MACHINE_NAME, check_machine, hash_hardware
from framebench.records.record import Record
from framebench.records.record_parts import Provenance

# of a results folder that several machines measured for: a results folder for each of them
NODES = "nodes"
CONFLICTS = "conflicts"
RELEASE = re.compile(r"[\w.+-]{1,100}")  # in the name of its file: the stranger chose it
Key = tuple[object, ...]


@dataclass
class CollectionReport:
    """The result of collecting records."""

    added: list[Record] = field(default_factory=list)
    present: int = 0  # records that the folder already had
    conflicts: list[str] = field(default_factory=list)  # in words
    unreadable: list[str] = field(default_factory=list)  # in words
    answers: int = 0  # searches and results of probes that were added
    # by name, what they called themselves
    machines: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


class Collection:
    """The folder that records are added to, with its measurements and the names of its machines."""

    def __init__(self, root: Path, name: str | None, apart: bool) -> None:
        """Read which records, and which names of machines, the folder has already."""
        self.root = root
        self.named = name
        self.apart = apart
        self.report = CollectionReport()
        # where each is, and a hash of what it says: all records may be too many for the memory
        self.measurements: dict[Key, tuple[str, str]] = {}
        self.names: dict[str, Counter[str]] = defaultdict(Counter)  # by fingerprint
        self.names_by_folder: dict[tuple[Path, str], str] = {}  # and by what it is called there
        for place, record in store.read_files(root):
            self.remember(record, place)

    def remember(self, record: Record, place: str) -> None:
        """Remember a record that lies in the folder."""
        self.measurements[make_key(record)] = place, hash_contents(record)
        self.names[hash_hardware(record.provenance.hardware)][record.provenance.machine] += 1

    def name_machine(self, origin: Provenance, folder: Path) -> str:
        """Return the name that the machine of a record in a folder has here.

        What one folder has under one name stays under one name: a host may change what it shows of
        a machine.
        """
        name = self.choose_name(origin, folder)
        self.names_by_folder.setdefault((folder, origin.machine), name)
        return name

    def choose_name(self, origin: Provenance, folder: Path) -> str:
        """Choose the name of a machine.

        It is the requested name, or its own where machines are to stay apart, or else that of an
        equal machine. A name that another kind of machine has gets the fingerprint.
        """
        fingerprint = hash_hardware(origin.hardware)
        name = self.named or origin.machine
        names_of_equal = self.names.get(fingerprint, Counter())
        if name in names_of_equal:
            return name
        if names_of_equal and not self.named and not self.apart:
            ((most_used, _count),) = names_of_equal.most_common(1)
            return most_used
        if (folder, origin.machine) in self.names_by_folder:
            return self.names_by_folder[folder, origin.machine]
        if any(name in taken for taken in self.names.values()):
            shortened = name[: LONGEST_MACHINE_NAME - len(fingerprint) - 1]
            return f"{shortened}-{fingerprint}"
        return name

    def add_results(self, results: Path) -> int:
        """Add what a results folder has and this one lacks; return how much it has.

        Counted are its records, searches and results of probes. What became of them is added to
        `report`. Raises OSError if they cannot be written.
        """
        count = 0
        faults: list[store.BadRecord | str] = []
        new: dict[Path, list[Record]] = defaultdict(list)  # by file: written together, it is fast
        for place, release, record in read_sources(results, self.root, faults.append):
            fault = find_fault(place, release, record)
            if fault:
                faults.append(fault)
                continue
            count += 1
            name = self.name_machine(record.provenance, results)
            self.report.machines[name].add(record.provenance.node or record.provenance.machine)
            if make_key(record) in self.measurements:
                self.compare(record, place)
                continue
            record = rename_machine(record, name)
            new[store.find_file(self.root, name, release)].append(record)
            self.remember(record, place)
        for file, records in new.items():
            store.append_all(records, file)
            self.report.added += records
        name_machine = partial(self.name_machine, folder=results)
        answers = add_answers(results, self.root, name_machine)
        self.report.answers += answers.added
        self.report.unreadable += map(str, faults)
        return count + len(faults) + answers.added + answers.present

    def compare(self, record: Record, place: str) -> None:
        """Count a record of a measurement that is there, or save it apart if the two differ."""
        earlier_place, earlier_hash = self.measurements[make_key(record)]
        own_hash = hash_contents(record)
        if own_hash == earlier_hash:
            self.report.present += 1
            return
        name = record.case.replace("/", ".")
        file = self.root / CONFLICTS / f"{name}.{own_hash[:16]}.json"
        store.write_atomically(record.model_dump_json(indent=1) + "\n", file)
        earlier = read_contents(read_record(earlier_place))
        contents = read_contents(record)
        different = [name for name in contents if earlier[name] != contents[name]]
        self.report.conflicts.append(
            f"{place}: says another {' and '.join(different)} than {earlier_place}, of the same "
            f"measurement; kept as {file}"
        )


def collect(
    folders: Sequence[Path],
    into: Path,
    name: str | None = None,
    apart: bool = False,
    say: Say = lambda _: None,
) -> CollectionReport:
    """Add the records of results folders, and of the machines' folders in them, to those of `into`.

    All machines go under `name`, or with `apart` each under its own, or equal machines under the
    name that is there or that of the first. While another process collects into the folder, `say`
    is called with a sentence. Raises BadMachine, and OSError if a record cannot be written.
    """
    into.mkdir(parents=True, exist_ok=True)
    with hold_lock(into / ".collect.lock", say, f"collects into {into}"):
        collection = Collection(into, check_machine(name) if name else None, apart)
        for folder in folders:
            count = 0
            for results in (folder, *sorted((folder / NODES).glob("*"))):
                count += collection.add_results(results)
            if not count:
                collection.report.unreadable.append(
                    f"{folder}: no records to collect; name a folder that has records/ or "
                    f"{NODES}/ in it"
                )
        return collection.report


def read_sources(
    results: Path, into: Path, report: store.Report
) -> Iterator[tuple[str, str, Record]]:
    """Yield the records of a results folder; `report` is called with what cannot be read.

    Each comes with its place and with its release, such as `torch-2.13.0`. If the folder is the one
    that they are added to, only records in files of their own are yielded. Raises OSError.
    """
    if results.resolve() != into.resolve():
        for file in store.list_files(results):
            for place, record in store.parse_record_file(file, report):
                yield place, Path(file).stem, record
    for file in store.list_single_files(results):
        release = Path(file).parent.parent.name
        try:
            yield file, release, store.read(file)
        except store.BadRecord as error:
            report(error)


def read_record(place: str) -> Record:
    """Return the record that was found in a place: a line, or a file of its own."""
    file, _, line = place.rpartition(":")
    if not line.isdigit():
        return store.read(place)
    return dict(store.parse_record_file(file))[place]


def find_fault(place: str, release: str, record: Record) -> str:
    """Return why a record is not taken, such as that it is of another release; "" if it is."""
    framework = record.parsed.framework
    if not release.startswith(f"{framework}-"):
        return f"{place}: a record of {framework}, but under {release}"
    if not RELEASE.fullmatch(release):
        return f"{place}: {release!r} is no <framework>-<version>"
    return ""


def rename_machine(record: Record, name: str) -> Record:
    """Return a record with `name` as its machine, and the machine that it had as its node."""
    return record.model_copy(update={"provenance": rename_origin(record.provenance, name)})


def make_key(record: Record) -> Key:
    """Return the fields that two records of one measurement share.

    The name of the machine is none of them, nor which one of its kind it is.
    """
    origin, turns = record.provenance, record.turns
    block = (turns.block, turns.arm) if turns else ()
    version = record.framework_version
    mark = hash_hardware(origin.hardware)
    return (mark, record.case, version, origin.session, origin.measured_at, *block)


def hash_contents(record: Record) -> str:
    """Return a hash of all that was measured."""
    text = json.dumps(read_contents(record), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read_contents(record: Record) -> dict[str, Any]:
    """Return the fields of a record without the names of its machine and node."""
    fields = record.model_dump(mode="json")
    del fields["provenance"]["machine"], fields["provenance"]["node"]
    return fields
