"""The record of what a case is predicted to need on a device. `store.py` caches it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field, model_validator

from framebench.devices.needs import INTERVALS, ErrorInterval, Kind
from framebench.devices.plans.answer import ASKED, CONVOLUTIONS, NOT_ASKED, Outcome
from framebench.records.record import Bytes, Moment, Part
from framebench.suite.case import Case

# compiler.plan: what XLA's executable for the device reserves, to the byte. allocator.simulated: a
# step on fake tensors, each storage of which goes through a model of the device's allocator
Source = Literal["compiler.plan", "allocator.simulated"]
PLAN = {"arguments", "outputs", "temporaries", "aliased"}
# of a plan, where there are such: on the device but not in the plan; in the host's memory
BESIDE, HOST = "beside", "host"
WITH_CONVOLUTIONS = ("resnet50", "unet3d")  # workloads


class Buffer(Part):
    """What one line of the source asks for, in buffers of one shape.

    Of a simulation those alive at the peak; of a plan all places in it, each with the largest
    buffer there.
    """

    bytes: Bytes  # of all of them
    # of the source that asked for it, or the operator; empty if the compiler does not tell
    line: str
    shape: str = ""
    count: int = 1


class Origin(Part):
    """How the prediction came about."""

    planned_at: Moment
    command: str
    commit: str | None
    dirty: bool | None
    code: str  # version of the planners (see `version.py`)
    python: str | None = None
    versions: dict[str, str] = Field(default={})
    wall_s: float  # that planning took, on whatever was there


class Planned(Part):
    """One case on one device. Never measured: it shares no column with what was."""

    schema_version: Literal[1] = 1
    case: str
    device: str
    framework: str
    framework_version: str
    source: Source | None  # None where nothing can tell
    outcome: Outcome
    reason: str | None = None  # unless it was planned
    needs_bytes: Bytes | None = None  # of what was refused, where the compiler tells
    peak_bytes: Bytes | None = None  # compiler.plan: the whole plan; allocator.simulated: reserved
    # of a plan PLAN, BESIDE and HOST; of a simulation allocated, reserved, and by kind
    parts: dict[str, Bytes] = Field(default={})
    largest: tuple[Buffer, ...] = ()
    not_held: tuple[str, ...] = ()  # what else the device will need, of whatever case
    notes: tuple[str, ...] = ()  # what to know of this case; whole sentences
    compiler: str = ""  # its version
    flags: dict[str, str] = Field(default={})  # that it was given
    # measured peaks lay between so many times the prediction ...
    low: float | None = Field(default=None, gt=0)
    # ... and so many times, over the GPUs and families that judged it
    high: float | None = Field(default=None, gt=0)
    origin: Origin

    @property
    def has_answer(self) -> bool:
        """Return whether something can tell if it fits."""
        return self.outcome in ("planned", "refused")

    @property
    def kind(self) -> Kind:
        """Return the kind of prediction, by which its error is stated.

        A simulation notes since 2026-11-28 whether cuDNN was asked. Before, all cases of the
        workloads below had convolutions.
        """
        if self.framework == "jax":
            return "jax"
        noted = self.flags.get(CONVOLUTIONS)
        if noted is None and self.case.split("/")[0] in WITH_CONVOLUTIONS:
            noted = ASKED if "cudnn" in self.origin.versions else NOT_ASKED
        if noted == ASKED:
            return "torch, convolutions"
        if noted == NOT_ASKED:
            return "torch, convolutions without workspaces"
        return "torch, ranks" if Case.from_id(self.case).ranks > 1 else "torch"

    @property
    def interval(self) -> ErrorInterval:
        """Return how far predictions of this kind were off."""
        return INTERVALS[self.kind]

    @property
    def used_bytes(self) -> int | None:
        """Return what was in use at once in a simulation, or all of a plan."""
        return self.parts.get("allocated", self.peak_bytes)

    @model_validator(mode="after")
    def holds_together(self) -> Planned:
        """Raise ValueError if outcome, reason, peak and parts contradict each other."""
        if (self.peak_bytes is not None) != (self.outcome == "planned"):
            raise ValueError(f"{self.outcome}, with the peak {self.peak_bytes}")
        if self.outcome != "planned" and not self.reason:
            raise ValueError(f"{self.outcome}, and no reason")
        if self.source == "compiler.plan" and self.outcome == "planned":
            if self.parts.keys() - {BESIDE, HOST} != PLAN:
                raise ValueError(
                    f"a plan has the parts {', '.join(sorted(PLAN))}, not "
                    f"{', '.join(sorted(self.parts))}"
                )
            whole = plan_bytes(self.parts)
            if whole != self.peak_bytes:
                raise ValueError(f"the parts give {whole} bytes, the peak is {self.peak_bytes}")
        return self


def plan_bytes(parts: dict[str, int]) -> int:
    """Return the bytes of a plan.

    Donated arguments are written over, so what is aliased counts once.
    """
    return (
        parts["arguments"]
        + parts["outputs"]
        + parts["temporaries"]
        - parts["aliased"]
        + parts.get(BESIDE, 0)
    )


def workspaces_of(predictions: Iterable[Planned]) -> str:
    """Return for a caption whether simulations hold what cuDNN takes for convolutions; nothing
    without simulations.
    """
    simulated = [
        p.origin.versions for p in predictions if p.source == "allocator.simulated" and p.has_answer
    ]
    with_cudnn = [versions["cudnn"] for versions in simulated if "cudnn" in versions]
    if not simulated:
        return ""
    if not with_cudnn:
        return "Workspaces of convolutions: none."
    share = ""
    if len(with_cudnn) < len(simulated):
        share = f" in {len(with_cudnn)} of {len(simulated)} simulations"
    return f"Workspaces of convolutions: as cuDNN {max(with_cudnn)} answers without a GPU{share}."


def code_of(commits: Iterable[str | None]) -> str:
    """Return for a caption which commits planned it."""
    known = sorted({commit[:10] for commit in commits if commit})
    if not known:
        return "Which commit planned it is not known."
    return f"Planned at commit{'s' if len(known) > 1 else ''} {', '.join(known)}."
