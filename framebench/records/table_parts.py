"""Define what tables need of the parts of a record (`record_parts.py`), which is read quickly."""

from __future__ import annotations

from datetime import UTC, datetime
from sys import intern
from typing import Annotated

from msgspec import Meta, Struct

from framebench.records.provenance import check_machine

# the limits of `records.record_parts`
Bytes = Annotated[int, Meta(ge=0, le=2**60)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Duration = Annotated[float, Meta(gt=0, le=1e9)]
Count = Annotated[int, Meta(ge=0, le=10**9)]
Moment = Annotated[datetime, Meta(tz=True)]
FIRST, END = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)


class TableTurns(Struct, gc=False):
    """When a record's steps were timed (`record_parts.Turns`)."""

    block: str
    arm: Count
    round: tuple[Count, ...]
    reference_s: tuple[Duration, ...]
    reference_flop: float


class TableRank(Struct, gc=False):
    """The memory of one of several ranks (`record_parts.Rank`)."""

    peaks: dict[str, Bytes]


class TableCalibration(Struct, gc=False):
    """The test of the machine's instruments (`record_parts.Calibration`)."""

    passed: bool
    failed: tuple[str, ...] = ()


class TableHardware(Struct, gc=False):
    """The hardware that a case ran on."""

    device: str | None = None
    cpu: str | None = None


class TableProvenance(Struct, gc=False):
    """Where a record came about (`record_parts.Provenance`)."""

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
        """Raise ValueError as `record_parts` does, and have texts of many records only once."""
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
    verified_in: str | None = None
    relative_error: dict[str, float | None] = {}
    mathematics: TableMathematics | None = None


class TableEvidence(Struct, gc=False):
    """The evidence of a strategy's effect."""

    activation_bytes: Bytes | None = None


class TableEffect(Struct, gc=False):
    """The verdict on a strategy's effect (`suite.result.StrategyEffect`)."""

    proven: bool
    evidence: TableEvidence
