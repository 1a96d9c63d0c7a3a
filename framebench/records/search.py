"""Define what a search for the largest batch within a memory budget found: `results/fits/`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from framebench.records.record_base import INSTRUMENTS, find_first
from framebench.records.record_parts import Bytes, Duration, Provenance, RecordPart

MIB = 2**20
Batch = Annotated[int, Field(ge=1)]


class Probe(RecordPart):
    """Three steps with one batch in a fresh process. Bytes are bytes, times are seconds."""

    batch: Batch
    outcome: Literal["fits", "memory", "failed"]
    reason: str | None = None
    limited: bool = False  # whether a limit was enforced, or only the measured peak decided
    peaks: dict[str, Bytes] = {}  # of a steady step, by instrument
    cold_peaks: dict[str, Bytes] = {}  # of the first step
    # bytes that steps took besides tensors and kept: workspaces, generated kernels; on the CPU
    kept_bytes: int | None = None
    # with an allocator that returns memory at once: slower than in a record
    step_s: Duration | None = None

    @property
    def instrument(self) -> str | None:
        """Return the instrument that `peak` is read by, or None without peaks."""
        return find_first(INSTRUMENTS, self.peaks)

    @property
    def peak(self) -> int | None:
        """Return the peak of a steady step in bytes, or None without peaks."""
        return self.peaks[self.instrument] if self.instrument else None

    @property
    def needs(self) -> int | None:
        """Return the bytes that a limit must leave, steady peak plus kept bytes, or None."""
        return None if self.peak is None else self.peak + (self.kept_bytes or 0)


class Fit(RecordPart):
    """The result for one framework and strategy: `largest` fits, the next batch does not."""

    schema_version: Literal[1] = 1
    case: str  # at the smallest batch that is possible
    budget_bytes: Annotated[Bytes, Field(ge=1)]
    # open: the greatest batch that was allowed still fits
    status: Literal["found", "none", "open", "stopped", "unsupported"]
    answer: str
    largest: Batch | None = None
    probes: list[Probe] = []
    # the smallest batch that does not fit, once more without a limit
    confirmation: Probe | None = None
    provenance: Provenance

    def describe_largest(self) -> str:
        """Return the largest batch that fits in words, and whether the search ended there."""
        if self.status == "none":
            return "not even the smallest"
        if not self.largest:
            return self.status
        remarks = {"open": " or more", "stopped": ", stopped"}
        return f"{self.largest}{remarks.get(self.status, '')}"
