"""Define what parent and worker agree on: version, orders of a worker, messages on the pipe.

A worker is started with a `Task` as JSON on its command line, and prints a `Message` as JSON on
each line: phases while it works, then its result or an error. Once everything is measured and
verified it prints the result so far as `measured`: whatever ends the process later, this much is
kept.

The part `time` says that it is `ready` once it has warmed up, and takes a `Command` as JSON on each
line of its standard input. Told to make a turn of n steps, it answers with a `Turn`. Where steps
are queued, on a device, it can also be told to make n steps and to wait for each: it answers with
the seconds of one. When it is told to finish it verifies what was timed and prints its result. If
its standard input ends before that, it ends too, without a result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NotRequired, TypedDict

from framebench.suite.tensors import Summaries

# Raised whenever a change makes new numbers incomparable with old ones.
# 2: Jittor's views count as what they keep.
# 3: other canonical values, verified tensor by tensor; garbage is collected before live bytes are
#    read.
VERSION = 3
REFERENCE_FLOP = 2**32  # of the reference matmul that blocks have between their turns
LOSS_STEPS = 1  # the second verified loss is observed after this many updates

Part = Literal["time", "memory", "look"]  # "look": memory, and verification without times


@dataclass(frozen=True)
class Reference:
    """Values to verify against: in float64, or without those of another case of the session."""

    case: str  # of the session; "" if the values are in float64
    values: dict[str, float]
    tensors: Summaries


@dataclass(frozen=True)
class VerifiedBlock:
    """An earlier block of the session in which a case was verified tensor by tensor."""

    name: str
    tolerance: dict[str, float]  # of each value, relative, as it was measured there


@dataclass(frozen=True)
class Task:
    """The orders of one worker."""

    case: str  # a full case id
    part: Part
    warmup: int = 3  # steps that are not timed, among them those that verification needs
    budget_s: float = 900.0  # a case whose steps would take longer altogether ends at once
    memory_steps: int = 3  # the peak is taken over at most so many steps, from the second one on
    memory_budget_s: float = 1.0  # if steps take longer, the peak of a single one is enough
    core: int | None = None  # pin the process to this core
    core_until_ready: int | None = None  # but to this one until it is ready
    memory_limit: int | None = None  # bytes of private memory the worker may map
    reference: Reference | None = None  # where golden.json has no values
    verified: VerifiedBlock | None = None  # then only the losses are verified again

    @staticmethod
    def from_dict(fields: dict[str, Any]) -> Task:
        """Return the task that `as_dict` was called on."""
        task = Task(**fields)
        reference, verified = fields.get("reference"), fields.get("verified")
        if reference:
            task = replace(task, reference=Reference(**reference))
        if verified:
            task = replace(task, verified=VerifiedBlock(**verified))
        return task

    def as_dict(self) -> dict[str, object]:
        """Return the task as JSON takes it."""
        return asdict(self)


class Command(TypedDict, total=False):
    """An order for a live worker: it has one of the first three keys."""

    turn: int  # make so many steps
    synced: int  # make so many steps, and wait for each
    finish: bool
    core: int  # the core on which to finish


class Ready(TypedDict):
    """The case is built, verified and warmed up."""

    step_s: float
    verification: dict[str, Any]  # a `Verification`
    queues: bool  # steps are queued, on a device


class Turn(TypedDict):
    """The measurements of one step of a turn: means over the turn's steps."""

    wall_s: float
    cpu_s: NotRequired[float]  # the reference process does not report it
    instructions: NotRequired[int | None]
    device_s: NotRequired[float | None]


class BatchReport(TypedDict):
    """A batch of an evaluation under a budget: it begins, was evaluated, or ran out of memory."""

    first: int  # the number of its first sample
    batch: int
    peaks: NotRequired[dict[str, int]]
    losses: NotRequired[list[float]]
    ran_out: NotRequired[str]


class Failure(TypedDict):
    """Why a worker gave up."""

    type: str  # of the exception
    message: str
    oom: bool  # memory ran out
    blamed: NotRequired[str]  # the line of the user's file that is at fault, and what it did
    no_device: NotRequired[bool]  # this machine lacks the devices that the case needs
    over_budget: NotRequired[bool]  # the case's steps would take longer than they may


class ChecksResult(TypedDict, total=False):
    """The result of a process that checks mathematics in float64."""

    errno: int  # of the system, why an outcome could not be written, as on a full disk


class Message(TypedDict, total=False):
    """A line of a worker: one of these."""

    phase: str
    measured: Mapping[str, Any]  # the `Result` (suite/result.py) as far as it is known
    report: BatchReport
    ready: Ready
    flop: float  # of the reference matmul, whose process is ready
    checked: str  # the case whose mathematics is checked in float64
    turn: Turn
    synced: float
    result: Mapping[str, Any]  # a `Result`, or what another entry point finds out
    error: Failure
