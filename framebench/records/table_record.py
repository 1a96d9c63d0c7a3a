"""Read of a line what tables need of a record: a tenth of the time and memory of a `Record`.

`framebench.load()` reads so. What it does not show is not looked at: `framebench check-results`
checks a record in full, as whatever shows single records does. What this quick way refuses, the
full one decides on (`parse`), so that no record is lost to it, and both name the same fault.
"""

from __future__ import annotations

from pathlib import Path
from sys import intern
from typing import Annotated, Literal, Self

from msgspec import DecodeError, Meta, Struct, json

from framebench.records import store
from framebench.records.calibration import Calibration
from framebench.records.lines import Line
from framebench.records.record_base import RecordBase, Status, parse_case
from framebench.records.table_parts import (
    Bytes,
    Duration,
    TableCalibration,
    TableEffect,
    TableProvenance,
    TableRank,
    TableTurns,
    TableVerification,
)


class TableRecord(RecordBase, Struct, gc=False):
    """One case, measured once: the fields that tables are made of."""

    case: str
    status: Status
    provenance: TableProvenance
    schema_version: Literal[1] = 1
    reason: str | None = None
    peaks: dict[str, Bytes] = {}
    cold_peaks: dict[str, Bytes] = {}
    live_bytes: Bytes | None = None
    elsewhere: dict[str, Bytes] = {}
    library_bytes: Bytes | None = None
    first_step_s: Duration | None = None
    step_s: tuple[Duration, ...] = ()
    instructions: tuple[int, ...] = ()
    turns: TableTurns | None = None
    ranks: tuple[TableRank, ...] = ()
    predicted_bytes: Bytes | None = None
    shares: dict[str, Annotated[float, Meta(ge=0)]] = {}
    verification: TableVerification | None = None
    effect: TableEffect | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a text that is no case, and for times without their turns."""
        parse_case(self.case)
        if self.step_s and self.turns is None:
            raise ValueError("step_s without turns")
        self.case = intern(self.case)

    def with_calibration(self, calibration: Calibration) -> Self:
        """Return this record with the calibration that its machine had when it was measured."""
        self.provenance.calibration = TableCalibration(
            calibration.passed, tuple(calibration.failed)
        )
        return self

    @property
    def device(self) -> str | None:
        """Return `cpu`, or the name of the GPU."""
        return self.provenance.hardware.device

    @property
    def cpu(self) -> str | None:
        """Return the processor's name, or None if it is unknown."""
        return self.provenance.hardware.cpu

    @property
    def activation_bytes(self) -> int | None:
        """Return the bytes that a forward pass saves for the backward pass; None if not counted."""
        return self.effect.evidence.activation_bytes if self.effect else None


DECODER = json.Decoder(TableRecord)


def parse_for_tables(line: Line) -> RecordBase:
    """Return the fields of a record that tables need. Raises BadRecord.

    Whatever the quick decoder refuses, such as a number that is written as a text, is left to
    `store.parse_record`, which returns or refuses it.
    """
    try:
        return DECODER.decode(line.text)
    except (DecodeError, ValueError, RecursionError):
        return store.parse_record(line)


def read_for_tables(root: Path, machine: str) -> list[RecordBase]:
    """Return every readable record of a machine, as `store.read_files` does.

    Those without a calibration have that of the folder (`store.fill_calibrations`).
    """
    records = [record for _, record in store.parse_files(parse_for_tables, root, machine)]
    return store.fill_calibrations(records, root, machine)
