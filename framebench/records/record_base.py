"""Define what tables need of a record, and what follows from it, whichever way it was read."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Literal, Self, TypeVar

from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case

if TYPE_CHECKING:
    from framebench.records.calibration import Calibration
    from framebench.records.record_parts import Provenance, Rank, Turns
    from framebench.records.table_parts import (
        TableEffect,
        TableProvenance,
        TableRank,
        TableTurns,
        TableVerification,
    )
    from framebench.suite.result import StrategyEffect, Verification

Status = Literal["ok", "oom", "timeout", "crashed", "unsupported", "wrong"]
# The first of these that a record has is its `peak`: exact counters of the framework come before
# the kernel's view.
OWN_COUNTERS = ("allocator.in_use", "compiler.plan")  # no two frameworks count the same
INSTRUMENTS = (*OWN_COUNTERS, "host.rss")
# NVML's: of the process, and of a GPU that nobody else used
ON_GPU = ("device.process", "device.card")
ALL_INSTRUMENTS = (*INSTRUMENTS, "allocator.active", "allocator.reserved", *ON_GPU)
ROUNDS = 3  # the fewest by which a block's times count; fewer were measured for peaks


# of a workload, scenario, strategy or size; a point stands between others alone, as in 1.3B
NAME = re.compile(r"[\w+-]+(?:\.[\w+-]+)*")


@cache  # reading thousands of records asks for the same cases again and again
def parse_case(text: str) -> Case:
    """Return the case with this id, whether this version has it (`Case.is_known`) or not.

    Records outlive the catalog. Raises ValueError for what is no such id.
    """
    mistake = f"{text!r} is no case: workload/framework/scenario/strategy/bN/size"
    try:
        case = Case.from_id(text)
    except ValueError:
        raise ValueError(mistake) from None
    if case.framework not in FRAMEWORKS or not all(map(NAME.fullmatch, text.split("/"))):
        raise ValueError(mistake)
    return case


def find_first(instruments: Sequence[str], peaks: Mapping[str, int]) -> str | None:
    """Return the first of these instruments that read a peak, or None if none of them did."""
    for name in instruments:
        if name in peaks:
            return name
    return None


@cache
def count_work(case: Case) -> int | None:
    """Return the samples or tokens of one step, or None of a case that is not known."""
    return case.work if case.is_known else None


class RecordBase:
    """The attributes of a record that tables need, and properties of them, however it was read.

    A `Record` is all of it, checked in full. A `table_record.TableRecord` has only these fields.
    """

    __slots__ = ()

    if TYPE_CHECKING:  # pydantic would take them for fields of its own
        case: str
        status: Status
        reason: str | None
        peaks: dict[str, int]
        cold_peaks: dict[str, int]
        live_bytes: int | None
        elsewhere: dict[str, int]
        library_bytes: int | None
        first_step_s: float | None
        step_s: Sequence[float]
        instructions: Sequence[int]
        predicted_bytes: int | None
        shares: dict[str, float]

        @property
        def turns(self) -> Turns | TableTurns | None: ...
        @property
        def ranks(self) -> Sequence[Rank | TableRank]: ...
        @property
        def verification(self) -> Verification | TableVerification | None: ...
        @property
        def effect(self) -> StrategyEffect | TableEffect | None: ...
        @property
        def provenance(self) -> Provenance | TableProvenance: ...
        @property
        def device(self) -> str | None: ...
        @property
        def cpu(self) -> str | None: ...
        @property
        def activation_bytes(self) -> int | None: ...
        def with_calibration(self, calibration: Calibration) -> Self: ...

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
    def turns_taken(self) -> Turns | TableTurns:
        """Return the turns of a record that was in a block."""
        assert self.turns is not None
        return self.turns

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


AnyRecord = TypeVar("AnyRecord", bound=RecordBase)


def get_measurement_time(record: RecordBase) -> datetime:
    """Return when a record was made."""
    return record.provenance.measured_at
