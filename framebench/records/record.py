"""Define the record of one measured case. Counters that do not exist are absent, never zero."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Literal, Self

from packaging.version import Version
from pydantic import AfterValidator, Field, field_validator, model_validator

from framebench.records.record_base import (
    INSTRUMENTS,
    ON_GPU,
    OWN_COUNTERS,
    ROUNDS,
    Status,
    find_first,
    parse_case,
)
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
from framebench.suite.case import Case
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


@cache
def count_work(case: Case) -> int | None:
    """Return the samples or tokens of one step, or None of a case that is not known."""
    return case.work if case.is_known else None


# Tables are in the order of cases and of releases, so these must have one.
CaseId = Annotated[str, AfterValidator(check_case)]
Release = Annotated[str, AfterValidator(check_release)]


class Record(RecordPart):
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

    @property
    def parsed(self) -> Case:
        """Return the case that was measured, which may be of another version (`Case.is_known`)."""
        return parse_case(self.case)

    @property
    def peak_instrument(self) -> str | None:
        """Return the instrument that `peak_bytes` is read by, or None if no such peak was read.

        That is the framework's own exact counter, or else `host.rss`, the kernel's number.
        """
        return find_first(INSTRUMENTS, self.peaks)

    @property
    def peak_bytes(self) -> int | None:
        """Return the peak of a steady step by `peak_instrument`, or None without one."""
        return self.peaks[self.peak_instrument] if self.peak_instrument else None

    @property
    def on_cpu(self) -> bool:
        """Return whether the case ran on a CPU."""
        return self.device == "cpu"

    @property
    def step_instrument(self) -> str | None:
        """Return the instrument by which strategies of one framework are compared.

        On a CPU that is what the kernel counts, on a GPU the framework's own counter.
        """
        return "host.rss" if self.on_cpu and "host.rss" in self.peaks else self.peak_instrument

    @property
    def shared_instrument(self) -> str | None:
        """Return the instrument by which frameworks are compared.

        The instrument is no counter of their own, since these count different things. On a GPU it
        is NVML, and None if NVML saw nothing.
        """
        if self.on_cpu:
            return self.step_instrument
        return find_first(ON_GPU, self.peaks)

    @property
    def own_instrument(self) -> str | None:
        """Return the framework's own counter, or None if it has none, as PyTorch on a CPU."""
        return find_first(OWN_COUNTERS, self.peaks)

    @property
    def timed(self) -> bool:
        """Return whether the times count.

        They do if the case is ok, and the rounds of all times are known and enough.
        """
        if self.status != "ok" or self.turns is None:
            return False
        return ROUNDS <= len(self.step_s) == len(self.turns.round)

    @property
    def step_time_s(self) -> float | None:
        """Return the median time of a step over the samples, or None without any."""
        return statistics.median(self.step_s) if self.step_s else None

    @property
    def throughput(self) -> float | None:
        """Return samples (or tokens that are no padding) per second."""
        work = count_work(self.parsed)
        if self.step_time_s is None or work is None:
            return None
        return work / self.step_time_s

    @property
    def verified(self) -> bool | None:
        """Return whether the result passed verification, or None if it was not verified."""
        return self.verification.passed if self.verification else None

    @property
    def usable(self) -> bool:
        """Return whether the numbers of the record may be shown.

        The record must be verified, its strategy was seen to take effect, and nothing was planted.
        """
        proven = self.effect is not None and self.effect.proven
        return bool(
            self.status == "ok" and self.verified and proven and not self.provenance.planted
        )

    @property
    def framework_version(self) -> str | None:
        """Return the release without the build's label, such as `2.13.0`, or None if unknown."""
        version = self.provenance.versions.get(self.parsed.framework)
        return version and version.partition("+")[0]


def get_measurement_time(record: Record) -> datetime:
    """Return when a record was made."""
    return record.provenance.measured_at


class _Answer(RecordPart):
    """A container of a result while it is read, which checks it as strictly as in a record."""

    result: Result


def read_result(fields: Mapping[str, Any]) -> Result:
    """Return the result that a worker has printed. Raises ValidationError if it is none."""
    return _Answer.model_validate({"result": fields}).result
