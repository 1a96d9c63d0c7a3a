"""Records of several results folders in one: each once, none lost, and equal machines under one name.

The same files collected again change nothing. Two records of one measurement that say different things are a conflict: what was
there stays, and the other is kept in `conflicts/`, which no table reads.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock

from framebench.records import store
from framebench.records.provenance import LONGEST, as_machine, fingerprint
from framebench.records.record import Record

NODES = "nodes"  # of a results folder that several machines measured for: a results folder for each of them
CONFLICTS = "conflicts"
Key = tuple[object, ...]


@dataclass
class Collected:
    """What became of the files."""

    added: list[Path] = field(default_factory=list)
    present: int = 0  # were there already
    conflicts: list[str] = field(default_factory=list)  # in words
    unreadable: list[str] = field(default_factory=list)  # likewise
    machines: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # by name, what they called themselves


def collect(folders: Sequence[Path], into: Path, name: str | None = None) -> Collected:
    """Add the records of these results folders, and of the machines' folders in them, to those of `into`; equal machines go
    under the name that is there, or `name`, or that of the first. Raises BadMachine, and OSError if one cannot be written."""
    into.mkdir(parents=True, exist_ok=True)
    with FileLock(into / ".collect.lock"):
        there = Known(into, name and as_machine(name))
        report = Collected()
        for folder in folders:
            if not (files := list(sources(folder, into))):
                report.unreadable.append(f"{folder}: no records to collect; name a folder that has records/ or {NODES}/ in it")
            for file in files:
                _add(Path(file), there, report)
        return report


def sources(folder: Path, into: Path) -> Iterator[str]:
    """The files of records, however many machines' folders there are. Raises OSError."""
    for where in (folder, *sorted((folder / NODES).glob("*"))):
        if where.is_dir() and where.resolve() != into.resolve():
            yield from store.files(where / "records")


class Known:
    """What lies in the folder by now: each measurement, and what machines are called."""

    def __init__(self, root: Path, name: str | None) -> None:
        self.root, self.preferred = root, name
        self.files: dict[Key, tuple[Path, str]] = {}
        self.names: dict[str, Counter[str]] = defaultdict(Counter)  # by fingerprint
        for file, record in store.read_files(root):
            self.learn(record, Path(file))

    def learn(self, record: Record, file: Path) -> None:
        self.files[key(record)] = file, content(record)
        self.names[fingerprint(record.provenance.hardware)][record.provenance.machine] += 1

    def name(self, record: Record) -> str:
        """What the record's machine is called here. A name that another kind of machine has gets the fingerprint."""
        mark, recorded_name = fingerprint(record.provenance.hardware), record.provenance.machine
        if called := self.names.get(mark):
            return recorded_name if recorded_name in called else called.most_common(1)[0][0]
        wanted = self.preferred or recorded_name
        taken = any(wanted in called for called in self.names.values())
        return f"{wanted[: LONGEST - len(mark) - 1]}-{mark}" if taken else wanted


def _add(file: Path, there: Known, report: Collected) -> None:
    """Raises OSError."""
    try:
        record = store.read(file)
        environment = _environment_of(file, record)
    except store.BadRecord as error:
        report.unreadable.append(str(error))
        return
    called = there.name(record)
    report.machines[called].add(record.provenance.node or record.provenance.machine)
    if earlier_file := there.files.get(key(record)):
        if earlier_file[1] == content(record):
            report.present += 1
        else:
            report.conflicts.append(_kept_aside(record, file, earlier_file[0], there.root))
        return
    record = _renamed(record, called)
    report.added.append(written := store.write(record, store.folder(there.root, called, environment, record.parsed)))
    there.learn(record, written)


def _environment_of(file: Path, record: Record) -> str:
    """`torch-2.13.0` of the folder that the file lies in. Raises BadRecord if it lies where such a record does not."""
    environment, framework = file.parent.parent.name, record.parsed.framework
    if not environment.startswith(f"{framework}-"):
        raise store.BadRecord(f"{file}: a record of {framework}, but in the folder {environment}")
    return environment


def _renamed(record: Record, name: str) -> Record:
    origin = record.provenance
    if origin.machine == name:
        return record
    changed = origin.model_copy(update={"machine": name, "node": origin.node or origin.machine})
    return record.model_copy(update={"provenance": changed})


def key(record: Record) -> Key:
    """What two records of one measurement share, on whichever machine of the kind and under whichever name."""
    origin, turns = record.provenance, record.turns
    block = (turns.block, turns.arm) if turns else ()
    version = record.framework_version
    return fingerprint(origin.hardware), record.case, version, origin.session, origin.measured_at, *block


def content(record: Record) -> str:
    """A hash of all that was measured; what the machine is called is no part of it."""
    return hashlib.sha256(json.dumps(said(record), sort_keys=True).encode()).hexdigest()


def said(record: Record) -> dict[str, Any]:
    fields = record.model_dump(mode="json")
    fields["provenance"] = {k: v for k, v in fields["provenance"].items() if k not in ("machine", "node")}
    return fields


def _kept_aside(record: Record, file: Path, earlier_file: Path, root: Path) -> str:
    """Keep a record that says other than the known one of the same measurement, once. In words which, and how they differ."""
    target = root / CONFLICTS / f"{record.case.replace('/', '.')}.{content(record)[:16]}.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(record.model_dump_json(indent=1) + "\n")
    one, other = said(store.read(earlier_file)), said(record)
    differs = [name for name in other if one[name] != other[name]]
    return f"{file}: says another {' and '.join(differs)} than {earlier_file}, of the same measurement; kept as {target}"
