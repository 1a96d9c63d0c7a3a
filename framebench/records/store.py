"""Write and read records: JSON files that only ever get added.

`results/records/<machine>/<framework>-<version>/<case with dots>/<time>.json`, written atomically,
checked on write and on read. `framebench.analysis.selection` tells which of a case's records
counts.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat
import warnings
from collections.abc import Iterator
from datetime import UTC
from itertools import count
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from framebench.records import provenance
from framebench.records.record import SCHEMA, Calibration, Record
from framebench.suite.case import Case

Model = TypeVar("Model", bound=BaseModel)

MOST_BYTES = 2**20  # of one file; records have some 15 KiB
MOST_NAMED = 20  # unreadable files, each in a warning of its own


class BadRecord(Exception):
    """A file that is no record this version can read; the message names file and reason."""


class RecordWarning(UserWarning):
    """A file was skipped."""


def find_calibration_file(root: Path) -> Path:
    """Return the file with what `framebench doctor` found out about this machine's instruments."""
    return root / "calibration" / f"{provenance.read_machine_name()}.json"


def read_calibration(root: Path) -> Calibration | None:
    """Return the summary of that file, if this machine was calibrated and the file can be read."""
    try:
        return read_model(Calibration, find_calibration_file(root))
    except BadRecord:
        return None


def find_folder(root: Path, machine: str, environment: str, case: Case) -> Path:
    """Return the folder of the records of one case; `environment` is such as `torch-2.13.0`."""
    return root / "records" / machine / environment / case.id.replace("/", ".")


def write(record: Record, where: Path) -> Path:
    """Write a record atomically under the time of its measurement, and return its path.

    The full record is on disk before its name appears. A clock that stands still or jumps back
    costs no record: a name that is taken gets a number.
    """
    stamp = record.provenance.measured_at.astimezone(UTC).strftime("%Y%m%dT%H%M%S%f")
    target = where / f"{stamp}.json"
    for number in count(1):
        if not target.exists():
            break
        target = where / f"{stamp}-{number}.json"
    write_atomically(record.model_dump_json(indent=1, exclude_defaults=False) + "\n", target)
    return target


def write_atomically(text: str, target: Path) -> None:
    """Write a file so that whoever finds it finds all of it. Raises OSError.

    A link of this name is replaced: what it leads to stays as it is.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def find_unfinished_folder(root: Path, machine: str, environment: str, case: Case) -> Path:
    """Return the folder of those records of a case whose memory is still to be measured.

    No reader of results looks there.
    """
    return find_folder(root / ".unfinished", machine, environment, case)


def find_unfinished_file(record: Record, where: Path) -> Path:
    """Return the file of a record in such a folder."""
    turns = record.turns_taken
    digest = hashlib.sha256(turns.block.encode()).hexdigest()[:16]
    return where / f"{digest}-{turns.arm}.json"


def write_unfinished(record: Record, where: Path) -> None:
    """Write a record whose memory is still to be measured, so that no times are lost.

    Raises OSError.
    """
    write_atomically(record.model_dump_json(), find_unfinished_file(record, where))


def read_unfinished(where: Path) -> list[Record]:
    """Return the records in such a folder. Damaged ones are left out: they are measured again."""
    records = []
    for path in sorted(where.glob("*.json")):
        with contextlib.suppress(BadRecord):
            records.append(read(path))
    return [record for record in records if record.turns is not None]


def remove_unfinished(record: Record, where: Path) -> None:
    """Remove the file of a record that is finished, and the folders that it leaves empty."""
    file = find_unfinished_file(record, where)
    if file.exists():
        file.unlink()
        with contextlib.suppress(OSError):  # another record is left there
            os.removedirs(file.parent)


def read(path: Path | str) -> Record:
    """Read a record. Raises BadRecord with the file's name and what is wrong with it."""
    return read_model(Record, path)


def read_model(kind: type[Model], path: Path | str, most_bytes: int = MOST_BYTES) -> Model:
    """Read a file of JSON as this kind of content.

    Raises BadRecord with the file's name and what is wrong with it, also where it is nested deeper
    than pydantic's parser goes (some 200 levels).
    """
    try:
        return kind.model_validate_json(read_bytes(path, most_bytes))
    except ValidationError as error:
        raise BadRecord(f"{path}: {explain(error)}") from error


def read_bytes(path: Path | str, most_bytes: int = MOST_BYTES) -> bytes:
    """Return what is in a file of a results folder, which may be a stranger's.

    Whatever reads results opens them here: no link is followed, since it may lead to any file of
    the reader's, and no pipe or device is waited for. Raises BadRecord, with the file's name.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode):
                raise BadRecord(f"{path}: no regular file; it was not read")
            if about.st_size > most_bytes:
                raise BadRecord(
                    f"{path}: {about.st_size:,} bytes, where at most {most_bytes:,} are read"
                )
            return file.read(most_bytes)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise BadRecord(f"{path}: a link; it was not followed") from error
        raise BadRecord(f"{path}: {error.strerror}") from error


def explain(error: ValidationError) -> str:
    """Say in one line what is wrong: that the schema is newer, or else the first fault."""
    first = error.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"]))
    schema = first["input"]
    if place == "schema_version" and isinstance(schema, int) and schema > SCHEMA:
        return (
            f"written in schema {schema}, newer than this framebench knows ({SCHEMA}); "
            "upgrade to read it"
        )
    reason = f"{place}: {first['msg']}" if place else first["msg"]
    return f"not a framebench record: {reason}"


def is_record_of(path: Path | str, machine: str) -> bool:
    """Say whether a file is a record of this machine that can be read."""
    try:
        return read_model(Record, path).provenance.machine == machine
    except BadRecord:
        return False


def read_all(root: Path) -> Iterator[Record]:
    """Yield every readable record under `root`/records.

    The others are named in a RecordWarning, and left alone.
    """
    return (record for _, record in read_files(root))


def list_files(folder: Path) -> list[str]:
    """Return the JSON files in a folder, however deep, in order; none if it is not there.

    Raises OSError where a folder cannot be looked into.
    """

    def unreadable(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    # names, not Paths: to make and list these takes as long as to read the files
    paths = (
        os.path.join(where, name)
        for where, _, names in os.walk(folder, onerror=unreadable)
        for name in names
    )
    return sorted(name for name in paths if name.endswith(".json"))


def read_files(root: Path) -> Iterator[tuple[str, Record]]:
    """Yield every readable record with its file's name.

    The first files that cannot be read are named in RecordWarnings, the others counted in one.
    Raises OSError for a folder that cannot be read.
    """
    skipped = 0
    for name in list_files(root / "records"):
        try:
            yield name, read(name)
        except BadRecord as error:
            skipped += 1
            if skipped <= MOST_NAMED:
                warnings.warn(f"skipped {error}", RecordWarning, stacklevel=2)
    if skipped > MOST_NAMED:
        more = f"skipped {skipped - MOST_NAMED} more files that cannot be read"
        warnings.warn(more, RecordWarning, stacklevel=2)


def read_cases(root: Path, machine: str, pattern: str) -> Iterator[Record]:
    """Yield a machine's readable records of the cases whose id matches a glob.

    In the glob dots stand for the strokes of the id.

    No other file is opened.
    """
    for path in sorted((root / "records" / machine).glob(f"*/{pattern}/*.json")):
        with contextlib.suppress(BadRecord):  # `read_all` is who names them
            yield read(path)


def read_session(where: Path, session: str) -> list[Record]:
    """Return what this session has measured of a case by now, oldest first.

    What cannot be read is passed over.
    """
    records = []
    for path in sorted(where.glob("*.json")):
        with contextlib.suppress(BadRecord):
            records.append(read(path))
    return [r for r in records if r.provenance.session == session]


def find_in_session(where: Path, session: str) -> Record | None:
    """Return the newest record of this session in a case's folder, if there is one."""
    for path in sorted(where.glob("*.json"), reverse=True):
        try:
            record = read(path)
        except BadRecord:
            continue
        if record.provenance.session == session:
            return record
    return None
