"""Read of a line what tables need of a record: a tenth of the time and memory of a `Record`.

`framebench.load()` reads so. What it does not show is not looked at: `framebench check-results`
checks a record in full, as whatever shows single records does. What this quick way refuses, the
full one decides on (`parse`), so that no record is lost to it, and both name the same fault.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from sys import intern
from typing import Annotated, Literal, Self

from msgspec import DecodeError, Meta, Struct, json

from framebench.records import store
from framebench.records.calibration import Calibration
from framebench.records.lines import Line
from framebench.records.provenance import check_machine
from framebench.records.record_base import RecordBase, Status, parse_case

# the limits of `records.record`
Bytes = Annotated[int, Meta(ge=0, le=2**60)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Duration = Annotated[float, Meta(gt=0, le=1e9)]
Count = Annotated[int, Meta(ge=0, le=10**9)]
Moment = Annotated[datetime, Meta(tz=True)]
FIRST, END = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)


class TableTurns(Struct, gc=False):
    """When a record's steps were timed (`record.Turns`)."""

    block: str
    arm: Count
    round: tuple[Count, ...]
    reference_s: tuple[Duration, ...]
    reference_flop: float


class TableRank(Struct, gc=False):
    """The memory of one of several ranks (`record.Rank`)."""

    peaks: dict[str, Bytes]


class TableCalibration(Struct, gc=False):
    """The test of the machine's instruments (`record.Calibration`)."""

    passed: bool
    failed: tuple[str, ...] = ()


class TableHardware(Struct, gc=False):
    """The hardware that a case ran on."""

    device: str | None = None
    cpu: str | None = None


class TableProvenance(Struct, gc=False):
    """Where a record came about (`record.Provenance`)."""

    session: str
    measured_at: Moment
    command: str
    commit: str | None
    dirty: bool | None
    machine: str
    hardware: TableHardware
    protocol: Count
    versions: dict[str, str] = {}
    threads: Annotated[int, Meta(ge=1, le=10**6)] | None = None
    core: int | None = None
    memory_limit: Bytes | None = None
    planted: dict[str, float] = {}
    calibration: TableCalibration | None = None

    def __post_init__(self) -> None:
        """Refuse what `record.Provenance` refuses, and have texts of many records only once."""
        check_machine(self.machine)
        if not FIRST <= self.measured_at < END:
            raise ValueError(f"measured at {self.measured_at}")
        self.machine = intern(self.machine)
        self.session = intern(self.session)
        self.command = intern(self.command)
        if self.commit is not None:
            self.commit = intern(self.commit)


class TableMathematics(Struct, gc=False):
    """The error of the step in float64 (`suite.result.Mathematics`)."""

    error: float | None


class TableVerification(Struct, gc=False):
    """The verification of a result (`suite.result.Verification`)."""

    passed: bool
    relative_error: dict[str, float | None] = {}
    mathematics: TableMathematics | None = None


class TableEvidence(Struct, gc=False):
    """The evidence of a strategy's effect."""

    activation_bytes: Bytes | None = None


class TableEffect(Struct, gc=False):
    """The verdict on a strategy's effect (`suite.result.StrategyEffect`)."""

    proven: bool
    evidence: TableEvidence


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
        """Refuse a text that is no case, and times without the turns in which they were taken."""
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
        """Return the processor."""
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
