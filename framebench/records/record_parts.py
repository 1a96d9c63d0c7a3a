"""Define the parts of a record: its turns, its ranks, and where it came about."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, field_validator

from framebench.records.calibration import Calibration
from framebench.records.provenance import check_machine

# More than any machine has or anybody waits for is damage, as is less than nothing.
Bytes = Annotated[int, Field(ge=0, le=2**60)]
Seconds = Annotated[float, Field(ge=0, le=1e9)]
Duration = Annotated[float, Field(gt=0, le=1e9)]  # of what took place
Count = Annotated[int, Field(ge=0, le=10**9)]
Moment = Annotated[
    AwareDatetime, Field(ge=datetime(1970, 1, 1, tzinfo=UTC), lt=datetime(9999, 1, 1, tzinfo=UTC))
]


class RecordPart(BaseModel):
    """A part of a record.

    It cannot be changed, and has no unknown fields and no number that is not finite.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Turns(RecordPart):
    """The turns in which a record's steps were timed.

    A block's processes are alive at once on one core, and in each round every one of them makes a
    turn of `steps` steps, in random order. Ratios of step times exist within a round only;
    `step_s[i]` of the record is the time of a step in round `round[i]`.
    """

    block: str  # an id that all records of the block share
    arm: Count  # the place of its process in the block; two may run the same case
    arms: list[str]  # the cases of all of them
    seed: int  # of the order
    steps: Count  # in one turn
    round: list[Count]
    at_s: list[Seconds]  # when each turn began, since the block's first one
    # of the same rounds: what a fixed float32 matmul by NumPy's BLAS took
    reference_s: list[Duration]
    reference_flop: float  # of that matmul


class Rank(RecordPart):
    """The memory of one of the processes or devices that share a case, in bytes."""

    rank: Annotated[int, Field(ge=0)]
    peaks: dict[str, Bytes]
    peak_samples: list[dict[str, Bytes]] = []
    cold_peaks: dict[str, Bytes] = {}
    live_bytes: Bytes | None = None
    # between two steps, counted from the storages: parameters, gradients, optimizer states
    held: dict[str, Bytes]


class Provenance(RecordPart):
    """Where and how a record's numbers came about."""

    session: str
    measured_at: Moment
    command: str
    commit: str | None
    dirty: bool | None
    machine: Annotated[str, AfterValidator(check_machine)]
    # the machine's own name, where `framebench collect` put equal machines under one name
    node: str | None = None
    hardware: dict[str, Any]
    python: str | None = None
    versions: dict[str, str] = {}
    environment: dict[str, str] = {}  # the variables set for the worker
    threads: Annotated[int, Field(ge=1, le=10**6)] | None = None
    core: int | None = None  # the timing worker was pinned to it
    load_before: float | None = None  # one-minute load average
    load_after: float | None = None
    profile: str | None = None  # the profile of the run, if it was for more than one case
    # bytes that the worker was allowed to map: a record under a limit is in no table
    memory_limit: Bytes | None = None
    # a known slowdown or more memory, for a study: no measurement of the case
    planted: dict[str, float] = {}
    calibration: Calibration | None = None
    # the GPU before and after: clocks, power limit, temperature, who else was on it
    gpu: dict[str, Any] = {}
    protocol: Count

    @field_validator("hardware")
    @classmethod
    def refuse_wrong_types(cls, hardware: dict[str, Any]) -> dict[str, Any]:
        """Raise ValueError for a memory size that is no number, and for names that are no text.

        Fingerprints and limits are computed from these, and tables show them.
        """
        size = hardware.get("memory_bytes")
        if size is not None and not is_size(size):
            raise ValueError(f"memory_bytes is a number of bytes, and not {str(size)[:40]!r}")
        for key in ("device", "cpu"):
            name = hardware.get(key)
            if name is not None and not isinstance(name, str):
                raise ValueError(f"{key} is a name, and not {str(name)[:40]!r}")
        return hardware


def is_size(value: object) -> bool:
    """Return whether a value can be a number of bytes."""
    return type(value) is int and 0 <= value <= 2**60
