"""Append lines to files that only grow, and read them whatever became of the last one.

A line is written by one call and is on the disk before `append_lines` returns. A process that is
killed in between leaves a last line without an end. Readers pass over it and say so, and the next
one to append removes it first: the lines before it are never touched.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
import warnings
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

MOST_BYTES = 2**20  # of one file of JSON, or of one line; records have some 5 KiB
MOST_FILE_BYTES = 2**30  # of one file of lines: some 200,000 records
BUFFER_BYTES = 2**18  # many lines at once: one has 5 KiB
READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
APPENDING = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class BadRecord(Exception):
    """A line that this version cannot read as a record; the message has its place and why."""


class RecordWarning(UserWarning):
    """A record was skipped, or the rest of one was removed."""


class Line(NamedTuple):
    """A line of a file."""

    place: str  # the file and the line's number, such as `torch-2.13.0.jsonl:17`
    text: bytes
    fault: str = ""  # why its text cannot be read; empty if it can be


@contextlib.contextmanager
def open_regular(path: Path | str, most_bytes: int) -> Iterator[BinaryIO]:
    """Open a file of a results folder, which may be a stranger's, to read it in this context.

    Whatever reads results opens them here: no link is followed, since it may lead to any file of
    the reader's, and no pipe or device is waited for. Raises BadRecord, with the file's name.
    """
    try:
        handle = os.open(path, READING)
        with os.fdopen(handle, "rb", buffering=BUFFER_BYTES) as file:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode):
                raise BadRecord(f"{path}: no regular file; it was not read")
            if about.st_size > most_bytes:
                raise BadRecord(
                    f"{path}: {about.st_size:,} bytes, where at most {most_bytes:,} are read"
                )
            yield file
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise BadRecord(f"{path}: a link; it was not followed") from error
        raise BadRecord(f"{path}: {error.strerror}") from error


def read_bytes(path: Path | str, most_bytes: int = MOST_BYTES) -> bytes:
    """Return the content of a file (`open_regular`). Raises BadRecord, with the file's name."""
    with open_regular(path, most_bytes) as file:
        return file.read(most_bytes)


def read_lines(path: Path | str) -> Iterator[Line]:
    """Yield the lines of a file, one after the other, so that no more than one is in memory.

    A last line that was cut off has a fault, and so has one that is too long. Raises BadRecord if
    the file cannot be read (`open_regular`).
    """
    with open_regular(path, MOST_FILE_BYTES) as file:
        for number in count(1):
            text = file.readline(MOST_BYTES + 1)
            if not text:
                return
            place = f"{path}:{number}"
            if len(text) > MOST_BYTES:
                while text and not text.endswith(b"\n"):
                    text = file.readline(MOST_BYTES)
                yield Line(place, b"", f"more than {MOST_BYTES:,} bytes in a line")
            elif text.endswith(b"\n") or is_json(text):
                yield Line(place, text)
            else:
                yield Line(place, text, "cut off, as where a process was killed")


def count_lines(path: Path | str) -> int:
    """Return how many lines a file has that came to their end, or 0 if it cannot be read."""
    lines = 0
    with contextlib.suppress(BadRecord), open_regular(path, MOST_FILE_BYTES) as file:
        for chunk in iter(partial(file.read, MOST_BYTES), b""):
            lines += chunk.count(b"\n")
    return lines


def append_lines(texts: Iterable[str], file: Path) -> None:
    """Add lines to a file, which is made if it is not there.

    The lines are on the disk when this returns. A kill or Ctrl-C in between leaves the first of
    them. Two processes that append at once wait for each other. Raises OSError if they cannot be
    written, also where the file is a link or no regular file; then none of them is there.
    """
    lines = [text.encode() + b"\n" for text in texts]
    for line in lines:
        if len(line) > MOST_BYTES:
            reason = f"a line of {len(line):,} bytes, where at most {MOST_BYTES:,} are read"
            raise OSError(errno.EFBIG, reason, str(file))
    with name_in_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = open_to_append(file)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)  # until the file is closed, however that comes about
            end_last_line(handle, file)
            size = os.fstat(handle).st_size
            try:
                write_all(handle, b"".join(lines))
                os.fsync(handle)
            except OSError:  # such as of a full disk
                with contextlib.suppress(OSError):
                    os.ftruncate(handle, size)
                raise
            if size == 0:
                sync_folder(file.parent)
        finally:
            os.close(handle)


@contextlib.contextmanager
def name_in_errors(file: Path) -> Iterator[None]:
    """Let each OSError in this context name the file: those of `write` and `fsync` name none."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(file)) from error


def open_to_append(file: Path) -> int:
    """Return a handle of a file that is written at its end, and made if it is not there.

    Raises OSError if it is a link, which may lead to any file, or no regular file.
    """
    handle = os.open(file, APPENDING, 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "no regular file", str(file))
    return handle


def end_last_line(handle: int, file: Path) -> None:
    """Make the file end with the end of a line, so that the next one begins where a line begins.

    What is left of a line whose process was killed is no JSON. It is removed, with a RecordWarning,
    since it would be skipped for ever. A line that lacks nothing but its end gets it.
    """
    size = os.fstat(handle).st_size
    begin = max(0, size - MOST_BYTES)
    tail = os.pread(handle, size - begin, begin)
    if not tail or tail.endswith(b"\n"):
        return
    last_line = tail[tail.rfind(b"\n") + 1 :]
    is_unknown = len(last_line) == MOST_BYTES  # no record is so long
    if is_json(last_line) or is_unknown:
        write_all(handle, b"\n")
        return
    os.ftruncate(handle, size - len(last_line))
    reason = f"{file}: its last line was cut off; the {len(last_line):,} bytes of it were removed"
    warnings.warn(reason, RecordWarning, stacklevel=3)


def is_json(text: bytes) -> bool:
    """Return whether a text is complete JSON."""
    try:
        parse_json(text)
    except ValueError:
        return False
    return True


def parse_json(text: bytes) -> Any:
    """Return what a text of JSON says. Raises ValueError if it is none, or is nested too deep."""
    try:
        return json.loads(text.decode())  # of bytes, UTF-16 would be taken too
    except RecursionError as error:
        raise ValueError("too many lists and objects in each other") from error


def write_all(handle: int, text: bytes) -> None:
    """Write a text, also where the system takes a part of it at a time. Raises OSError."""
    remaining = memoryview(text)
    while remaining:
        remaining = remaining[os.write(handle, remaining) :]


def sync_folder(folder: Path) -> None:
    """Flush a folder to disk, so that the name of a new file survives a crash."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
