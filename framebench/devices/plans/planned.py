"""The record of what a case is predicted to need on a device. `store.py` caches it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from packaging.version import Version
from pydantic import Field, field_validator, model_validator

from framebench.devices.catalog import BY_NAME
from framebench.devices.needs import INTERVALS, TITLES, ErrorInterval, Kind, estimate_needs
from framebench.devices.plans.answer import (
    ASKED,
    CONVOLUTIONS,
    NOT_ASKED,
    STEP_KIND,
    LineBuffers,
    PlanOutcome,
)
from framebench.models.spec import UnknownName
from framebench.records.record_base import parse_case
from framebench.records.record_parts import Bytes, Moment, RecordPart
from framebench.suite.case import Case

# compiler.plan: what XLA's executable for the device reserves, to the byte. allocator.simulated: a
# step on fake tensors, each storage of which goes through a model of the device's allocator
Source = Literal["compiler.plan", "allocator.simulated"]


class PredictionOrigin(RecordPart):
    """The origin of a prediction."""

    planned_at: Moment
    command: str
    commit: str | None
    dirty: bool | None
    code: str  # version of the planners (see `version.py`)
    versions: dict[str, str] = Field(default={})
    wall_s: float  # seconds of planning, on whatever machine did it
    # published predictions have it, without a value; new ones are written without it
    python: None = Field(default=None, exclude=True)


class Planned(RecordPart):
    """One case on one device. Never measured: it shares no column with what was."""

    schema_version: Literal[1] = 1
    case: str
    device: str
    framework: str
    framework_version: str
    source: Source | None  # None if nothing can tell
    outcome: PlanOutcome
    reason: str | None = None  # unless it was planned
    needs_bytes: Bytes | None = None  # of what was refused, where the compiler tells
    peak_bytes: Bytes | None = None  # compiler.plan: the whole plan; allocator.simulated: reserved
    # of a plan: arguments, outputs, temporaries, and what of them is aliased; also `beside` (on the
    # device, not in the plan) and `host`, if they are not 0. Of a simulation: allocated, reserved,
    # and the bytes by kind
    parts: dict[str, Bytes] = Field(default={})
    # of a simulation those alive at the peak; of a plan all places in it, each with the largest
    # buffer there
    largest: tuple[LineBuffers, ...] = ()
    not_held: tuple[str, ...] = ()  # other memory that the device will need, for any case
    notes: tuple[str, ...] = ()  # whole sentences on this case
    compiler: str = ""  # its version
    flags: dict[str, str] = Field(default={})  # of the compiler
    origin: PredictionOrigin
    # published predictions have these, without a value; new ones are written without them
    low: None = Field(default=None, exclude=True)
    high: None = Field(default=None, exclude=True)

    @property
    def has_answer(self) -> bool:
        """Return whether something can tell if it fits."""
        return self.outcome in ("planned", "refused")

    @property
    def kind(self) -> Kind:
        """Return the kind of prediction, by which its error is stated.

        The simulation of a user's file notes it. A simulation notes since 2026-11-28 whether cuDNN
        was asked. Before, it tells by the workload whether there were convolutions.
        """
        if self.framework == "jax":
            return "jax"
        for kind in TITLES:
            if self.flags.get(STEP_KIND) == kind:
                return kind
        noted = self.flags.get(CONVOLUTIONS)
        case = Case.from_id(self.case)
        if noted is None and declares_convolutions(case):
            noted = ASKED if "cudnn" in self.origin.versions else NOT_ASKED
        if noted == NOT_ASKED:
            return "torch, convolutions without workspaces"
        if case.strategy_spec.compiles:
            return "torch, compiled"
        if case.ranks > 1:
            return "torch, ranks"
        if noted == ASKED:
            return "torch, convolutions"
        return find_kind_without_convolutions(case)

    @property
    def has_convolutions(self) -> bool:
        """Return whether it is known that the simulated step has convolutions."""
        if self.framework != "torch":
            return False
        return CONVOLUTIONS in self.flags or declares_convolutions(Case.from_id(self.case))

    @property
    def missing(self) -> tuple[str, ...]:
        """Return what the peak does not hold, of what this case may need.

        What cuDNN chooses is no matter of a simulation that has neither convolutions nor cuDNN's
        attention.
        """
        by_cudnn = self.has_convolutions or "cudnn" in self.flags.get("attention", "")
        if self.framework == "jax" or by_cudnn:
            return self.not_held
        return tuple(note for note in self.not_held if "workspaces of convolutions" not in note)

    @property
    def error_interval(self) -> ErrorInterval:
        """Return how far predictions of this kind were off."""
        return INTERVALS[self.kind]

    @property
    def used_bytes(self) -> int | None:
        """Return the most bytes in use at once in a simulation, or all bytes of a plan.

        It is None unless the case was planned.
        """
        if self.outcome != "planned":
            return None
        return self.parts.get("allocated", self.peak_bytes)

    @property
    def predicted_bytes(self) -> int | None:
        """Return the bytes that the framework takes of the device, also where it has fewer."""
        return self.needs_bytes if self.peak_bytes is None else self.peak_bytes

    @field_validator("not_held", "notes")
    @classmethod
    def update_words(cls, sentences: tuple[str, ...]) -> tuple[str, ...]:
        """Return the sentences with `GPU` for `card`, which published predictions say.

        Otherwise a table of older and newer predictions would have the same sentence twice.
        """
        return tuple(re.sub(r"\bcard(s?)\b", r"GPU\1", sentence) for sentence in sentences)

    @field_validator("reason")
    @classmethod
    def update_reason(cls, reason: str | None) -> str | None:
        """Return the reason without `needs`, which published predictions say of reserved bytes."""
        if reason is None:
            return None
        return reason.replace("does not fit: needs", "does not fit: the allocator would reserve")

    @model_validator(mode="after")
    def refuse_contradictions(self) -> Planned:
        """Raise ValueError for no case, or if case, device, outcome, reason and peak disagree."""
        if parse_case(self.case).framework != self.framework:
            raise ValueError(f"a case of another framework than {self.framework}")
        if self.device not in BY_NAME:
            raise ValueError(f"no device of this framebench: {self.device!r}")
        if (self.peak_bytes is not None) != (self.outcome == "planned"):
            raise ValueError(f"{self.outcome}, with the peak {self.peak_bytes}")
        if self.outcome != "planned" and not self.reason:
            raise ValueError(f"{self.outcome}, and no reason")
        return self


def declares_convolutions(case: Case) -> bool:
    """Return whether the case's workload is there, and says that it has convolutions."""
    try:
        return case.workload_spec.has_convolutions is True
    except UnknownName:  # a prediction of a workload that this framebench does not have
        return False


def find_kind_without_convolutions(case: Case) -> Kind:
    """Return which error interval applies to an eager step on one GPU without convolutions."""
    if case.scenario == "finetune":
        return "torch, frozen weights"
    if case.workload != "transformer":
        return "torch"
    return "torch, padded texts" if case.scenario == "varlen" else "torch, texts of one length"


def compute_saving(planned: Planned, baseline: Planned | None) -> float | None:
    """Return what a case has in use relative to its baseline: both predicted, by the same method.

    A simulation has it of what does not fit, too. Returns None where one of the two has not.
    """
    if baseline is None:
        return None
    in_use = planned.parts.get("allocated", planned.peak_bytes)
    base_in_use = baseline.parts.get("allocated", baseline.peak_bytes)
    return in_use / base_in_use if in_use and base_in_use else None


def find_upper_needs(planned: Planned) -> int | None:
    """Return the bytes to plan with, by the upper end of the error; None without a prediction."""
    if planned.predicted_bytes is None:
        return None
    error = planned.error_interval.high
    return estimate_needs(planned.predicted_bytes, error, BY_NAME[planned.device])


def describe_workspaces(predictions: Iterable[Planned]) -> str:
    """Return for a caption whether simulations hold what cuDNN takes for convolutions.

    It ends with a space, and is empty without simulations of models that have convolutions.
    """
    count = 0
    releases = []
    for planned in predictions:
        if planned.has_convolutions and planned.has_answer:
            count += 1
            if "cudnn" in planned.origin.versions:
                releases.append(planned.origin.versions["cudnn"])
    if not count:
        return ""
    if not releases:
        return "Workspaces of convolutions: none. "
    newest = max(releases, key=Version)
    share = ""
    if len(releases) < count:
        share = f" in {len(releases)} of {count} simulations"
    return f"Workspaces of convolutions: as cuDNN {newest} answers without a GPU{share}. "


def describe_code(commits: Iterable[str | None]) -> str:
    """Return for a caption which commits planned it."""
    short_hashes = sorted({commit[:10] for commit in commits if commit})
    if not short_hashes:
        return "Which commit planned it is not known."
    return f"Planned at commit{'s' if len(short_hashes) > 1 else ''} {', '.join(short_hashes)}."
