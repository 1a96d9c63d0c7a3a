"""Put the records of several results folders into one: each once, none lost.

Equal machines get one name, unless they are to stay apart. Searches for the largest batch and the
results of probes are collected with the records. The same records collected again change nothing.
Two records of one measurement with different contents are a conflict: what was there stays, and the
other is kept in `conflicts/`, which no table reads.
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
from typing import Any, NamedTuple

from framebench.cluster.collect_answers import add_answers, change_machine
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


class StoredMeasurement(NamedTuple):
    """A record of the folder, without its contents: all may be too large for the memory."""

    place: str  # its file and line
    contents_hash: str


class Collection:
    """The folder that records are added to, with its measurements and the names of its machines."""

    def __init__(self, root: Path, name: str | None, apart: bool) -> None:
        """Read which records, and which names of machines, the folder has already."""
        self.root = root
        self.requested_name = name
        self.apart = apart
        self.report = CollectionReport()
        self.measurements: dict[Key, StoredMeasurement] = {}
        # by fingerprint of the hardware, how many records each name of a machine has
        self.names: dict[str, Counter[str]] = defaultdict(Counter)
        # by results folder and the machine's name in it, its name here
        self.names_by_folder: dict[tuple[Path, str], str] = {}
        for place, record in store.read_files(root):
            self.remember(record, place)

    def remember(self, record: Record, place: str) -> None:
        """Remember a record that lies in the folder."""
        self.measurements[make_key(record)] = StoredMeasurement(place, hash_contents(record))
        self.names[hash_hardware(record.provenance.hardware)][record.provenance.machine] += 1

    def name_machine(self, provenance: Provenance, folder: Path) -> str:
        """Return the name that the machine of a record in a folder has here.

        Records that have one name in a folder keep one name, although their hardware may differ: a
        host may change what it shows of a machine.
        """
        name = self.choose_name(provenance, folder)
        self.names_by_folder.setdefault((folder, provenance.machine), name)
        return name

    def choose_name(self, provenance: Provenance, folder: Path) -> str:
        """Choose the name of a machine.

        It is the requested name, or its own where machines are to stay apart, or else that of an
        equal machine. A name that another kind of machine has gets the fingerprint as its ending.
        """
        fingerprint = hash_hardware(provenance.hardware)
        name = self.requested_name or provenance.machine
        names_of_equal = self.names.get(fingerprint, Counter())
        if name in names_of_equal:
            return name
        joins_equal = not self.requested_name and not self.apart
        if names_of_equal and joins_equal:
            ((most_used, _count),) = names_of_equal.most_common(1)
            return most_used
        # as for an earlier record of the same folder, whose hardware may have changed since
        if (folder, provenance.machine) in self.names_by_folder:
            return self.names_by_folder[folder, provenance.machine]
        is_of_other_kind = any(name in names for names in self.names.values())
        if is_of_other_kind:
            shortened = name[: LONGEST_MACHINE_NAME - len(fingerprint) - 1]
            return f"{shortened}-{fingerprint}"
        return name

    def add_results(self, results: Path) -> int:
        """Add what a results folder has and this one lacks; return how much it has.

        The number is that of its records, searches, results of probes, and lines that cannot be
        read. What was done with each is added to `report`. Raises OSError if they cannot be
        written.
        """
        count = 0
        faults: list[store.BadRecord | str] = []
        # by file, since writing the records of a file together is fast
        new_records: dict[Path, list[Record]] = defaultdict(list)
        for place, release, record in self.read_sources(results, faults):
            count += 1
            name = self.name_machine(record.provenance, results)
            self.report.machines[name].add(record.provenance.node or record.provenance.machine)
            if make_key(record) in self.measurements:
                self.compare(record, place)
                continue
            provenance = change_machine(record.provenance, name)
            record = record.model_copy(update={"provenance": provenance})
            new_records[store.find_file(self.root, name, release)].append(record)
            self.remember(record, place)
        for file, records in new_records.items():
            store.append_all(records, file)
            self.report.added += records
        name_machine = partial(self.name_machine, folder=results)
        answers = add_answers(results, self.root, name_machine)
        self.report.answers += answers.added
        self.report.unreadable += map(str, faults)
        return count + len(faults) + answers.added + answers.present

    def read_sources(
        self, results: Path, faults: list[store.BadRecord | str]
    ) -> Iterator[tuple[str, str, Record]]:
        """Yield the records of a results folder with their places and releases.

        A release is such as `torch-2.13.0`. What cannot be read is added to `faults`. The folder
        that records are added to has none to add.
        """
        if results.resolve() == self.root.resolve():
            return
        for file in store.list_files(results):
            release = Path(file).stem
            for place, record in store.parse_record_file(file, faults.append):
                fault = find_fault(place, release, record)
                if fault:
                    faults.append(fault)
                else:
                    yield place, release, record

    def compare(self, record: Record, place: str) -> None:
        """Compare a record with the stored one of the same measurement.

        If they are equal, the record is counted as present. Otherwise it is a conflict, and saved
        in the folder CONFLICTS.
        """
        stored = self.measurements[make_key(record)]
        contents_hash = hash_contents(record)
        if contents_hash == stored.contents_hash:
            self.report.present += 1
            return
        case_name = record.case.replace("/", ".")
        file = self.root / CONFLICTS / f"{case_name}.{contents_hash[:16]}.json"
        store.write_atomically(record.model_dump_json(indent=1) + "\n", file)
        stored_file = stored.place.rpartition(":")[0]
        stored_record = dict(store.parse_record_file(stored_file))[stored.place]
        stored_contents = read_contents(stored_record)
        contents = read_contents(record)
        different = [name for name in contents if stored_contents[name] != contents[name]]
        self.report.conflicts.append(
            f"{place}: says another {' and '.join(different)} than {stored.place}, of the same "
            f"measurement; kept as {file}"
        )


def collect(
    folders: Sequence[Path],
    into: Path,
    name: str | None = None,
    apart: bool = False,
    say: Say = lambda _: None,
) -> CollectionReport:
    """Add the records of results folders, and of the machines' folders in them, to a folder.

    Returns which records were added, and what could not be. Raises BadMachine, and OSError if a
    record cannot be written.

    Args:
        folders: The results folders to read.
        into: The results folder to add to.
        name: One name for the machine of all added records. Without it, machines of equal hardware
            get one name: the one that `into` has for them, or else that of the first.
        apart: Whether each machine keeps its own name instead.
        say: Called with a sentence while another process collects into the folder.
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


def find_fault(place: str, release: str, record: Record) -> str:
    """Return why a record is not taken, such as that it is of another release; "" if it is."""
    framework = record.parsed.framework
    if not release.startswith(f"{framework}-"):
        return f"{place}: a record of {framework}, but under {release}"
    if not RELEASE.fullmatch(release):
        return f"{place}: {release!r} is no <framework>-<version>"
    return ""


def make_key(record: Record) -> Key:
    """Return the fields that two records of one measurement share.

    The name of the machine is not among them, since a machine may be renamed.
    """
    provenance, turns = record.provenance, record.turns
    block = (turns.block, turns.arm) if turns else ()
    return (
        hash_hardware(provenance.hardware),
        record.case,
        record.framework_version,
        provenance.session,
        provenance.measured_at,
        *block,
    )


def hash_contents(record: Record) -> str:
    """Return a hash of all that was measured."""
    text = json.dumps(read_contents(record), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read_contents(record: Record) -> dict[str, Any]:
    """Return the fields of a record without the names of its machine and node."""
    fields = record.model_dump(mode="json")
    del fields["provenance"]["machine"], fields["provenance"]["node"]
    return fields
