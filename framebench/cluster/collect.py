"""Records of several results folders in one: each once, none lost, and equal machines under one
name.

The same files collected again change nothing. Two records of one measurement with different
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
from pathlib import Path
from typing import Any

from filelock import FileLock

from framebench.records import store
from framebench.records.provenance import LONGEST, check_machine, hash_hardware
from framebench.records.record import Record

# of a results folder that several machines measured for: a results folder for each of them
NODES = "nodes"
CONFLICTS = "conflicts"
ENVIRONMENT = re.compile(r"[\w.+-]{1,100}")  # the name of its folder: the stranger chose it
Key = tuple[object, ...]


@dataclass
class CollectionReport:
    """What became of the files."""

    added: list[Path] = field(default_factory=list)
    present: int = 0  # were there already
    conflicts: list[str] = field(default_factory=list)  # in words
    unreadable: list[str] = field(default_factory=list)  # likewise
    # by name, what they called themselves
    machines: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


class Collection:
    """The folder that records are added to: each measurement in it, and what machines are called
    there.
    """

    def __init__(self, root: Path, name: str | None) -> None:
        self.root = root
        self.preferred_name = name
        self.report = CollectionReport()
        self.files: dict[Key, tuple[Path, str]] = {}  # with the hash of the contents
        self.names: dict[str, Counter[str]] = defaultdict(Counter)  # by fingerprint
        for file, record in store.read_files(root):
            self.remember(record, Path(file))

    def remember(self, record: Record, file: Path) -> None:
        """Remember a record that lies in the folder."""
        self.files[make_key(record)] = file, hash_contents(record)
        self.names[hash_hardware(record.provenance.hardware)][record.provenance.machine] += 1

    def name_machine(self, record: Record) -> str:
        """Return what the record's machine is called here.

        A name that another kind of machine has gets the fingerprint.
        """
        mark, own_name = hash_hardware(record.provenance.hardware), record.provenance.machine
        names = self.names.get(mark)
        if names:
            return own_name if own_name in names else names.most_common(1)[0][0]
        name = self.preferred_name or own_name
        if any(name in taken for taken in self.names.values()):
            return f"{name[: LONGEST - len(mark) - 1]}-{mark}"
        return name

    def add(self, file: Path) -> None:
        """Add the record of a file, unless it is there. Raises OSError if it cannot be written."""
        try:
            record = store.read(file)
            environment = find_environment(file, record)
        except store.BadRecord as error:
            self.report.unreadable.append(str(error))
            return
        name = self.name_machine(record)
        self.report.machines[name].add(record.provenance.node or record.provenance.machine)
        if make_key(record) in self.files:
            earlier_file, contents = self.files[make_key(record)]
            if contents == hash_contents(record):
                self.report.present += 1
            else:
                self.report.conflicts.append(self.set_aside(record, file, earlier_file))
            return
        record = rename_machine(record, name)
        written = store.write(
            record, store.find_folder(self.root, name, environment, record.parsed)
        )
        self.report.added.append(written)
        self.remember(record, written)

    def set_aside(self, record: Record, file: Path, earlier_file: Path) -> str:
        """Keep a record with other contents than an earlier one of the same measurement, and return
        how they differ.
        """
        target = (
            self.root
            / CONFLICTS
            / f"{record.case.replace('/', '.')}.{hash_contents(record)[:16]}.json"
        )
        store.write_atomically(record.model_dump_json(indent=1) + "\n", target)
        earlier, other = read_contents(store.read(earlier_file)), read_contents(record)
        differences = " and ".join(name for name in other if earlier[name] != other[name])
        return (
            f"{file}: says another {differences} than {earlier_file}, of the same measurement; "
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
            files = list(list_sources(folder, into))
            if not files:
                report.unreadable.append(
                    f"{folder}: no records to collect; name a folder that "
                    f"has records/ or {NODES}/ in it"
                )
            for file in files:
                collection.add(Path(file))
        return report


def list_sources(folder: Path, into: Path) -> Iterator[str]:
    """Yield the files of records, however many machines' folders there are. Raises OSError."""
    for results in (folder, *sorted((folder / NODES).glob("*"))):
        if results.is_dir() and results.resolve() != into.resolve():
            yield from store.list_files(results / "records")


def find_environment(file: Path, record: Record) -> str:
    """Return `torch-2.13.0` of the folder that a file lies in.

    Raises BadRecord if such a record does not belong there.
    """
    environment, framework = file.parent.parent.name, record.parsed.framework
    if not environment.startswith(f"{framework}-"):
        raise store.BadRecord(f"{file}: a record of {framework}, but in the folder {environment}")
    if not ENVIRONMENT.fullmatch(environment):
        raise store.BadRecord(f"{file}: {environment!r} is no <framework>-<version>")
    return environment


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
