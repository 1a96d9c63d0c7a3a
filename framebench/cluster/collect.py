"""Records of several results folders in one: each once, none lost, and equal machines under one
name.

Also those of older versions of framebench, which had a file for each record. Searches for the
largest batch and the results of probes are collected with them. The same records
collected again change nothing. Two records of one measurement with different
contents are a conflict: what was there stays, and the other is kept in `conflicts/`, which no table
reads.
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

from filelock import FileLock

from framebench.cluster.collect_answers import add_answers
from framebench.records import store
from framebench.records.provenance import LONGEST, check_machine, hash_hardware
from framebench.records.record import Provenance, Record

# of a results folder that several machines measured for: a results folder for each of them
NODES = "nodes"
CONFLICTS = "conflicts"
MOST_UNWRITTEN = 1000  # records of a file: an interrupted run is repeated from there
ENVIRONMENT = re.compile(r"[\w.+-]{1,100}")  # in the name of its file: the stranger chose it
Key = tuple[object, ...]


@dataclass
class CollectionReport:
    """What became of the files."""

    added: list[Record] = field(default_factory=list)
    present: int = 0  # were there already
    conflicts: list[str] = field(default_factory=list)  # in words
    unreadable: list[str] = field(default_factory=list)  # likewise
    answers: int = 0  # searches and results of probes that were added
    # by name, what they called themselves
    machines: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


class Source(NamedTuple):
    """A record of a folder that is collected, or why it cannot be read."""

    folder: Path  # of results
    place: str  # the file, and the line in it
    environment: str  # such as `torch-2.13.0`
    record: Record | store.BadRecord


class Collection:
    """The folder that records are added to: each measurement in it, and what machines are called
    there.
    """

    def __init__(self, root: Path, name: str | None) -> None:
        self.root = root
        self.preferred_name = name
        self.report = CollectionReport()
        self.files: dict[Key, tuple[str, str]] = {}  # with the hash of the contents
        self.names: dict[str, Counter[str]] = defaultdict(Counter)  # by fingerprint
        self.names_by_folder: dict[tuple[Path, str], str] = {}  # and by what it is called there
        self.unwritten: dict[Path, list[Record]] = defaultdict(list)  # by file
        for place, record in store.read_files(root):
            file, _, _ = place.rpartition(":")
            self.remember(record, file)

    def remember(self, record: Record, file: str) -> None:
        """Remember a record that lies in the folder."""
        self.files[make_key(record)] = file, hash_contents(record)
        self.names[hash_hardware(record.provenance.hardware)][record.provenance.machine] += 1

    def name_machine(self, origin: Provenance, folder: Path) -> str:
        """Return what the machine of a record in a folder is called here.

        A name that another kind of machine has gets the fingerprint. What one folder has under one
        name stays under one: a host may change what it shows of a machine.
        """
        mark, own_name = hash_hardware(origin.hardware), origin.machine
        names = self.names.get(mark)
        if names:
            name = own_name if own_name in names else names.most_common(1)[0][0]
        elif (folder, own_name) in self.names_by_folder:
            name = self.names_by_folder[folder, own_name]
        else:
            name = self.preferred_name or own_name
            if any(name in taken for taken in self.names.values()):
                name = f"{name[: LONGEST - len(mark) - 1]}-{mark}"
        self.names_by_folder.setdefault((folder, own_name), name)
        return name

    def add(self, source: Source) -> None:
        """Add a record, unless it is there; `write` writes what was added.

        Raises OSError if it cannot be written.
        """
        record = source.record
        if isinstance(record, store.BadRecord):
            self.report.unreadable.append(str(record))
            return
        fault = find_fault(source.environment, record)
        if fault:
            self.report.unreadable.append(f"{source.place}: {fault}")
            return
        name = self.name_machine(record.provenance, source.folder)
        self.report.machines[name].add(record.provenance.node or record.provenance.machine)
        if make_key(record) in self.files:
            earlier_file, contents = self.files[make_key(record)]
            if contents == hash_contents(record):
                self.report.present += 1
            else:
                self.report.conflicts.append(self.set_aside(record, source.place, earlier_file))
            return
        record = rename_machine(record, name)
        file = store.find_file(self.root, name, source.environment)
        self.unwritten[file].append(record)
        self.remember(record, str(file))
        if len(self.unwritten[file]) == MOST_UNWRITTEN:
            self.write()

    def write(self) -> None:
        """Write what was added, many records at a time: it takes the disk as long as one does.

        Raises OSError if they cannot be written.
        """
        for file, records in self.unwritten.items():
            store.append_all(records, file)
            self.report.added += records
        self.unwritten.clear()

    def set_aside(self, record: Record, place: str, earlier_file: str) -> str:
        """Keep a record with other contents than an earlier one of the same measurement, and return
        how they differ.
        """
        target = (
            self.root
            / CONFLICTS
            / f"{record.case.replace('/', '.')}.{hash_contents(record)[:16]}.json"
        )
        store.write_atomically(record.model_dump_json(indent=1) + "\n", target)
        self.write()  # the earlier one may be among them
        earlier_place, earlier_record = find_measurement(make_key(record), earlier_file)
        earlier, other = read_contents(earlier_record), read_contents(record)
        differences = " and ".join(name for name in other if earlier[name] != other[name])
        return (
            f"{place}: says another {differences} than {earlier_place}, of the same measurement; "
            f"kept as {target}"
        )


def collect(folders: Sequence[Path], into: Path, name: str | None = None) -> CollectionReport:
    """Add the records of results folders, and of the machines' folders in them, to those of `into`.

    Equal machines go under the name that is there, or `name`, or that of the first. Raises
    BadMachine, and OSError if a record cannot be written.
    """
    into.mkdir(parents=True, exist_ok=True)
    with FileLock(into / ".collect.lock"):
        collection = Collection(into, check_machine(name) if name else None)
        report = collection.report
        for folder in folders:
            is_empty = True
            for source in read_sources(folder, into):
                is_empty = False
                collection.add(source)
            for results in list_results_folders(folder):
                name_machine = partial(collection.name_machine, folder=results)
                answers = add_answers(results, into, name_machine)
                report.answers += answers.added
                is_empty = is_empty and not any(answers)
            if is_empty:
                report.unreadable.append(
                    f"{folder}: no records to collect; name a folder that "
                    f"has records/ or {NODES}/ in it"
                )
        collection.write()
        return report


def read_sources(folder: Path, into: Path) -> Iterator[Source]:
    """Yield the records of a folder, and of the machines' folders in it. Raises OSError.

    Of the folder that they are added to these are the ones in files of their own.
    """
    for results in list_results_folders(folder):
        if results.resolve() != into.resolve():
            for file in store.list_files(results):
                for place, record in store.parse_record_file(file):
                    yield Source(results, place, Path(file).stem, record)
        for file in store.list_single_files(results):
            yield Source(results, file, Path(file).parent.parent.name, read_single(file))


def list_results_folders(folder: Path) -> list[Path]:
    """Return a results folder and those of the machines in it."""
    folders = [folder, *sorted((folder / NODES).glob("*"))]
    return [results for results in folders if results.is_dir()]


def read_single(file: str) -> Record | store.BadRecord:
    """Return the record in a file of its own, or why it cannot be read."""
    try:
        return store.read(file)
    except store.BadRecord as error:
        return error


def find_measurement(key: Key, file: str) -> tuple[str, Record]:
    """Return the record of a measurement in a file, with its place."""
    for place, record in store.parse_record_file(file):
        if isinstance(record, Record) and make_key(record) == key:
            return place, record
    raise LookupError(f"{file}: its record of {key} is gone")


def find_fault(environment: str, record: Record) -> str | None:
    """Return why a record does not belong to a release such as `torch-2.13.0`, if it does not."""
    framework = record.parsed.framework
    if not environment.startswith(f"{framework}-"):
        return f"a record of {framework}, but under {environment}"
    if not ENVIRONMENT.fullmatch(environment):
        return f"{environment!r} is no <framework>-<version>"
    return None


def rename_machine(record: Record, name: str) -> Record:
    """Return a record under another name of its machine, which becomes the node."""
    origin = record.provenance
    if origin.machine == name:
        return record
    changed = origin.model_copy(update={"machine": name, "node": origin.node or origin.machine})
    return record.model_copy(update={"provenance": changed})


def make_key(record: Record) -> Key:
    """Return what two records of one measurement share, on whichever machine of the kind and under
    whichever name.
    """
    origin, turns = record.provenance, record.turns
    block = (turns.block, turns.arm) if turns else ()
    version = record.framework_version
    return (
        hash_hardware(origin.hardware),
        record.case,
        version,
        origin.session,
        origin.measured_at,
        *block,
    )


def hash_contents(record: Record) -> str:
    """Return a hash of all that was measured."""
    return hashlib.sha256(json.dumps(read_contents(record), sort_keys=True).encode()).hexdigest()


def read_contents(record: Record) -> dict[str, Any]:
    """Return all that was measured; what the machine is called is no part of it."""
    fields = record.model_dump(mode="json")
    del fields["provenance"]["machine"], fields["provenance"]["node"]
    return fields
