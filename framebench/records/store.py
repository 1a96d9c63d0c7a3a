"""Write and read records: lines of JSON in files that only ever grow.

`results/records/<machine>/<framework>-<version>.jsonl` has a line for each measurement, checked on
write and on read. `framebench.analysis.selection` tells which of a case's records count. Searches
(`results/fits/`) and the results of probes (`results/claims/`) are lines of files of their own.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import secrets
import warnings
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from framebench.records.calibration import Calibration
from framebench.records.lines import (
    BadRecord,
    Line,
    RecordWarning,
    append_lines,
    name_in_errors,
    read_bytes,
    read_lines,
    write_all,
)
from framebench.records.record import SCHEMA, Record, get_measurement_time
from framebench.suite.counting import format_count

Model = TypeVar("Model", bound=BaseModel)
Report = Callable[[BadRecord], object]  # is told of what cannot be read

FOLDER = "records"
SUFFIX = ".jsonl"
# /dev/stdout and /dev/fd/3 are streams of this process, whatever they lead to
STREAM_FOLDERS = (Path("/dev"), Path("/dev/fd"), Path("/proc/self/fd"))
MOST_DEPTH = 8  # of folders in folders: framebench itself makes three
MOST_NAMED = 20  # records that cannot be read, each in a warning of its own


def warn_of_skipped(faults: list[BadRecord]) -> None:
    """Name the first lines and files that were skipped in RecordWarnings, and count the others."""
    for fault in faults[:MOST_NAMED]:
        warnings.warn(f"skipped {fault}", RecordWarning, stacklevel=3)
    more = len(faults) - MOST_NAMED
    if more > 0:
        message = f"skipped {format_count(more, 'more record')} that cannot be read"
        warnings.warn(message, RecordWarning, stacklevel=3)


def find_calibration_file(root: Path, machine: str) -> Path:
    """Return the file in which `framebench doctor` recorded a machine's calibration."""
    return root / "calibration" / f"{machine}.json"


def read_calibration(root: Path, machine: str) -> Calibration | None:
    """Return whether a machine's instruments passed `framebench doctor`, and which did not.

    Returns None if the machine was not calibrated, or the file of its calibration cannot be read.
    """
    try:
        return read_model(Calibration, find_calibration_file(root, machine))
    except BadRecord:
        return None


def fill_calibrations(records: list[Record], root: Path, machine: str) -> list[Record]:
    """Return a machine's records, each with a calibration if the machine had one by then.

    A record that was measured into another folder has none of its own. It gets the one that the
    folder `root` has of its machine, if that was made before the record.
    """
    calibration = read_calibration(root, machine)
    if calibration is None or calibration.measured_at.tzinfo is None:
        return records
    filled = []
    for record in records:
        origin = record.provenance
        if origin.calibration is None and calibration.measured_at <= origin.measured_at:
            origin = origin.model_copy(update={"calibration": calibration})
            record = record.model_copy(update={"provenance": origin})
        filled.append(record)
    return filled


def find_file(root: Path, machine: str, environment: str) -> Path:
    """Return the file of a machine's records with one release, such as `torch-2.13.0`."""
    return root / FOLDER / machine / f"{environment}{SUFFIX}"


def append(record: BaseModel, file: Path) -> None:
    """Add a record, a search or the result of a probe to a file, as a line.

    Raises OSError if it cannot be written (`lines.append_lines`).
    """
    append_all([record], file)


def append_all(records: Iterable[BaseModel], file: Path) -> None:
    """Add records to a file, all or none. Raises OSError if they cannot be written."""
    append_lines((record.model_dump_json() for record in records), file)


def write_atomically(text: str, target: Path) -> None:
    """Write a file so that whoever finds it finds all of it. Raises OSError, which names the file.

    A link of this name is replaced: its target is not changed.
    """
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    with name_in_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("x", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def replace_text(text: str, file: Path) -> None:
    """Write a text into a file that the user names: until all of it is written, the old one stays.

    If the name is a link, its target is written. To a stream, such as a pipe or /dev/stdout, it is
    added. Raises OSError, which names the file, also for a pipe that nobody reads.
    """
    if is_stream(file):
        write_to_stream(text, file)
        return
    target = Path(os.path.realpath(file))
    mode = target.stat().st_mode if target.exists() else None
    write_atomically(text, target)
    if mode is not None:
        target.chmod(mode)


def is_stream(file: Path) -> bool:
    """Return whether a file is not replaced but written to: a pipe, a device, or an open stream."""
    if file.absolute().parent in STREAM_FOLDERS:
        return True
    return file.exists() and not file.is_file()


def write_to_stream(text: str, file: Path) -> None:
    """Write a text to a pipe or a device. Raises OSError, which names it, if nobody reads the pipe.

    A pipe that is opened as a file is would be waited for until somebody reads it.
    """
    with name_in_errors(file):
        try:
            handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.ENXIO:
                raise OSError(errno.ENXIO, "nobody reads this pipe") from error
            raise
        try:
            os.set_blocking(handle, True)  # a reader may be slower than this
            write_all(handle, text.encode())
        finally:
            os.close(handle)


def read(path: Path | str) -> Record:
    """Read a record. Raises BadRecord with the file's name and what is wrong with it."""
    return read_model(Record, path)


def read_model(kind: type[Model], path: Path | str) -> Model:
    """Read a file of JSON as this kind of content.

    Raises BadRecord with the file's name and what is wrong with it, also if it is nested deeper
    than pydantic's parser goes (some 200 levels).
    """
    try:
        return kind.model_validate_json(read_bytes(path))
    except ValidationError as error:
        raise BadRecord(f"{path}: {explain(error)}") from error


def read_models(kind: type[Model], files: Iterable[Path | str]) -> list[Model]:
    """Return, in order, the contents of the files that can be read as this kind of content.

    Files that cannot be read so are named in RecordWarnings.
    """
    contents = []
    faults = []
    for file in files:
        try:
            contents.append(read_model(kind, file))
        except BadRecord as error:
            faults.append(error)
    warn_of_skipped(faults)
    return contents


def explain(error: ValidationError) -> str:
    """Return in one line why a record is invalid: a newer schema, or else the first fault."""
    first_error = error.errors(include_url=False)[0]
    place = ".".join(map(str, first_error["loc"]))
    schema = first_error["input"]
    if place == "schema_version" and isinstance(schema, int) and schema > SCHEMA:
        return (
            f"written in schema {schema}, newer than this framebench knows ({SCHEMA}); "
            "upgrade to read it"
        )
    reason = f"{place}: {first_error['msg']}" if place else first_error["msg"]
    if first_error["type"] == "json_invalid":
        reason = "cut off or no JSON, or nested too deep"
    return f"not a framebench record: {reason}"


def parse(kind: type[Model], line: Line) -> Model:
    """Parse a line as this kind of record. Raises BadRecord, with its place and the fault."""
    if line.fault:
        raise BadRecord(f"{line.place}: {line.fault}")
    try:
        return kind.model_validate_json(line.text)
    except ValidationError as error:
        raise BadRecord(f"{line.place}: {explain(error)}") from error


def ignore(fault: BadRecord) -> None:
    """Pass over a line or a file that cannot be read."""


def parse_file(
    kind: type[Model], path: Path | str, report: Report = ignore
) -> Iterator[tuple[str, Model]]:
    """Yield the place of each line of a file that is such a record, and the record.

    `report` is called with the BadRecord of each other line, or of a file that cannot be opened.
    """
    try:
        for line in read_lines(path):
            try:
                content = parse(kind, line)
            except BadRecord as error:
                report(error)
            else:
                yield line.place, content
    except BadRecord as error:
        report(error)


def parse_record_file(path: str, report: Report = ignore) -> Iterator[tuple[str, Record]]:
    """Yield the records of a file with their places (`parse_file`).

    A record of another machine than the one whose folder the file is in is a fault.
    """
    machine = Path(path).parent.name
    for place, record in parse_file(Record, path, report):
        recorded_machine = record.provenance.machine
        if recorded_machine == machine:
            yield place, record
        else:
            reason = f"a record of the machine {recorded_machine}, but in the folder {machine}"
            report(BadRecord(f"{place}: {reason}"))


def read_first_record(path: str) -> Record | None:
    """Return the first record of a file that can be read, or None without such a record."""
    return next((record for _, record in parse_record_file(path)), None)


def read_all(root: Path) -> Iterator[Record]:
    """Yield every readable record under `root`/records (`read_files`)."""
    return (record for _, record in read_files(root))


def read_machine(root: Path, machine: str) -> list[Record]:
    """Return every readable record of a machine, each with its calibration."""
    records = [record for _, record in read_files(root, machine)]
    return fill_calibrations(records, root, machine)


def list_machines(root: Path) -> list[str]:
    """Return the names of the machines that have a folder; no link is followed.

    Raises OSError for a folder that cannot be read.
    """
    try:
        with os.scandir(root / FOLDER) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return []


def list_files(root: Path, machine: str | None = None) -> list[str]:
    """Return the files of records of a machine, or of all, in order.

    A folder that we may not list is returned itself: reading it then fails and names it, and the
    other machines' files are read. Raises OSError if a folder cannot be listed for another
    reason, such as a disk that fails.
    """
    files = []
    for name in list_machines(root) if machine is None else [machine]:
        folder = os.path.join(root, FOLDER, name)
        try:
            names = sorted(os.listdir(folder))
        except FileNotFoundError:
            continue  # a machine that has no folder has no files
        except PermissionError:
            files.append(folder)
        else:
            files += [os.path.join(folder, file) for file in names if file.endswith(SUFFIX)]
    return files


def read_answers(kind: type[Model], folder: Path) -> Iterator[tuple[str, Model]]:
    """Yield every readable search or result of a probe in the files of a folder, with its place.

    The others are named in RecordWarnings. Raises OSError for a folder that cannot be read.
    """
    faults: list[BadRecord] = []
    for file in list_answer_files(folder):
        yield from parse_file(kind, file, faults.append)
    warn_of_skipped(faults)


def list_answer_files(folder: Path) -> list[str]:
    """Return the files of lines in a folder and those in it, in order, or none if it is no folder.

    Folders may be a stranger's, and nested until no path can name the innermost one: what is deeper
    than MOST_DEPTH is named in a RecordWarning. Raises OSError if a folder cannot be looked into.
    """

    def fail(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise error

    files = []
    for where, inner, names in os.walk(folder, onerror=fail):
        files += [os.path.join(where, name) for name in names if name.endswith(SUFFIX)]
        depth = len(Path(where).relative_to(folder).parts)
        if depth == MOST_DEPTH and inner:
            inner.clear()
            reason = f"more than {MOST_DEPTH} folders deep; the rest was not looked at"
            warnings.warn(f"skipped {where}: {reason}", RecordWarning, stacklevel=2)
    return sorted(files)


@contextlib.contextmanager
def pause_collector() -> Iterator[None]:
    """Collect no garbage in this context.

    Looking through the objects of many records again and again takes most of the time of reading
    them, and they have no circles.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def read_files(root: Path, machine: str | None = None) -> Iterator[tuple[str, Record]]:
    """Yield every readable record with its place, of one machine or of all.

    The records come in the order of machine, release, case and time. The first lines that cannot be
    read are named in RecordWarnings, the others counted in one. Raises OSError for a folder that
    cannot be read.
    """
    faults: list[BadRecord] = []
    for file in list_files(root, machine):
        with pause_collector():
            # a file is in the order of its lines, which `framebench collect` may have added at any
            # time
            records = sorted(parse_record_file(file, faults.append), key=get_order)
        yield from records
    warn_of_skipped(faults)


def get_order(placed_record: tuple[str, Record]) -> tuple[str, datetime]:
    """Return what the records of a file are sorted by."""
    _place, record = placed_record
    return record.case, get_measurement_time(record)


def read_session(file: Path | str, session: str, case: str = "") -> list[Record]:
    """Return the records of a session in a file, of one case or of all, the oldest first.

    What cannot be read is passed over.
    """
    # most lines are of other sessions, and need not be parsed
    lines = find_lines(file, [text for text in (session, case) if text])
    records = []
    for line in lines:
        with contextlib.suppress(BadRecord):
            record = parse(Record, line)
            if record.provenance.session == session and case in ("", record.case):
                records.append(record)
    return sorted(records, key=get_measurement_time)


def find_lines(file: Path | str, texts: Iterable[str]) -> list[Line]:
    """Return the lines of a file that have all these texts as values, as `append` writes them.

    Of a file that cannot be read it is the lines before that.
    """
    marks = [to_json(text) for text in texts]
    lines = []
    with contextlib.suppress(BadRecord):
        for line in read_lines(file):
            if all(mark in line.text for mark in marks):
                lines.append(line)
    return lines
