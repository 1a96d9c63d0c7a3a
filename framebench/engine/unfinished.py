"""Keep the records of a block until their memory is measured: an interruption loses no times.

`results/.unfinished/<hash>.jsonl` has a line for each variant of a block. It is written at once
when the rounds are over, and removed when each has its record. No reader of results looks there.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable
from pathlib import Path

from framebench.records import store
from framebench.records.record import Record
from framebench.records.record_parts import RecordPart


class UnfinishedRecord(RecordPart):
    """A record that may still lack its memory, and the environment that its variant has."""

    environment: str  # such as `torch-2.13.0`
    record: Record


def find_file(results: Path, block: str) -> Path:
    """Return the file of a block. The name of a block has its session in it."""
    digest = hashlib.sha256(block.encode()).hexdigest()[:16]
    return results / ".unfinished" / f"{digest}{store.SUFFIX}"


def write(unfinished: Iterable[UnfinishedRecord], file: Path) -> None:
    """Write the records of a block, all or none. Raises OSError."""
    lines = [record.model_dump_json() + "\n" for record in unfinished]
    store.write_atomically("".join(lines), file)


def read(file: Path) -> list[UnfinishedRecord]:
    """Return the records of an interrupted block.

    The list is empty if a record is damaged: the block is then measured again.
    """
    faults: list[store.BadRecord] = []
    unfinished = [record for _, record in store.parse_file(UnfinishedRecord, file, faults.append)]
    return [] if faults else unfinished


def remove(file: Path) -> None:
    """Remove the file of a block whose records are written, and the folder if it is empty.

    Files that a killed session left half written are removed, too: only one session writes into a
    results folder at a time.
    """
    for leftover in (file, *file.parent.glob(".*.tmp")):
        leftover.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # it is not there, or another session left a block in it
        file.parent.rmdir()
