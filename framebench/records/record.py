"""Define the record of one measured case. Counters that do not exist are absent, never zero."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from packaging.version import Version
from pydantic import AfterValidator, Field, field_validator, model_validator

from framebench.records.calibration import Calibration
from framebench.records.record_base import RecordBase, Status, parse_case
from framebench.records.record_parts import (
    Bytes,
    Duration,
    Provenance,
    Rank,
    RecordPart,
    Seconds,
    Turns,
    is_size,
)
from framebench.suite.result import Result, StrategyEffect, Verification

SCHEMA = 1


def check_case(text: str) -> str:
    """Return the text if it is the id of a case. Raises ValueError."""
    parse_case(text)
    return text


def check_release(text: str) -> str:
    """Return the text if it is a version of a framework. Raises ValueError."""
    Version(text)
    return text


# Tables are in the order of cases and of releases, so these must have one.
CaseId = Annotated[str, AfterValidator(check_case)]
Release = Annotated[str, AfterValidator(check_release)]


class Record(RecordBase, RecordPart):
    """One case, measured once. Bytes are bytes, times are seconds."""

    schema_version: Literal[1] = 1
    case: CaseId
    status: Status
    reason: str | None = None
    peaks: dict[str, Bytes] = {}  # of a steady step, by instrument
    peak_samples: list[dict[str, Bytes]] = []
    cold_peaks: dict[str, Bytes] = {}  # of the first step: what compilation and autotuning add
    live_bytes: Bytes | None = None  # weights, gradients, optimizer states, inputs between steps
    # bytes that a user's program holds besides `live_bytes`, by holder; part of the peak
    elsewhere: dict[str, Bytes] = {}
    # bytes that libraries keep between calls of a user's program in PyTorch; in no steady peak
    library_bytes: Bytes | None = None
    # a GPU allocator's other counters at the end, and the process's bytes beyond its pool
    allocator: dict[str, Bytes] = {}
    first_step_s: Duration | None = None
    step_s: list[Duration] = []
    # of the last of these steps, by events on the device; where the framework has them
    device_step_s: list[Seconds] = []
    # of steps waited for one by one, where those of `step_s` are queued: on a device
    synced_step_s: list[Duration] = []
    # of the whole GPU, idle power included
    energy_j_per_step: Annotated[float, Field(ge=0)] | None = None
    cpu_s_per_step: Seconds | None = None
    # of each of `step_s`: in user space, of a step; where the processor counts them
    instructions: list[int] = []
    turns: Turns | None = None  # of a case that was in a block
    # of a case over several, by their number; `peaks` and what goes with them are the fullest one's
    ranks: list[Rank] = []
    predicted_bytes: Bytes | None = None  # of the fullest rank, by `framebench predict`
    # of the step time: `wait` for input, Python's `collector`
    shares: dict[str, Annotated[float, Field(ge=0)]] = {}
    spent_s: dict[str, float] = {}  # where the case's wall-clock time went
    verification: Verification | None = None
    effect: StrategyEffect | None = None
    log_tail: str | None = None
    provenance: Provenance = Field(repr=False)

    @field_validator("effect")
    @classmethod
    def refuse_wrong_size(cls, effect: StrategyEffect | None) -> StrategyEffect | None:
        """Raise ValueError for saved bytes that are no number of bytes: tables show them."""
        size = effect.evidence.get("activation_bytes") if effect else None
        if size is not None and not is_size(size):
            raise ValueError(f"activation_bytes is a number of bytes, and not {str(size)[:40]!r}")
        return effect

    @model_validator(mode="after")
    def refuse_times_without_turns(self) -> Self:
        """Raise ValueError for times without the turns in which they were taken."""
        if self.step_s and self.turns is None:
            raise ValueError("step_s without turns")
        return self

    @property
    def turns_taken(self) -> Turns:
        """Return the turns of a record that was in a block."""
        assert self.turns is not None
        return self.turns

    def with_calibration(self, calibration: Calibration) -> Self:
        """Return a copy with the calibration that its machine had when it was measured."""
        origin = self.provenance.model_copy(update={"calibration": calibration})
        return self.model_copy(update={"provenance": origin})

    @property
    def device(self) -> str | None:
        """Return `cpu`, or the name of the GPU."""
        return self.provenance.hardware.get("device")

    @property
    def cpu(self) -> str | None:
        """Return the processor's name, or None if it is unknown."""
        return self.provenance.hardware.get("cpu")

    @property
    def activation_bytes(self) -> int | None:
        """Return the bytes that a forward pass saves for the backward pass; None if not counted."""
        return self.effect.evidence.get("activation_bytes") if self.effect else None


class _Answer(RecordPart):
    """A container of a result while it is read, which checks it as strictly as in a record."""

    result: Result


def read_result(fields: Mapping[str, Any]) -> Result:
    """Return the result that a worker has printed. Raises ValidationError if it is none."""
    return _Answer.model_validate({"result": fields}).result
