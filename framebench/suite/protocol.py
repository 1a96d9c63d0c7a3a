"""What parent and worker agree on: the protocol's version and the knobs of a measurement.

A worker is started with a Task as JSON on its command line, and prints a `Message` as JSON on each line: phases while it works,
then its result or an error. Parts of the result are told before, as `measured`, when they are known: what ends the worker later
does not take them. Both sides import it.

The part `time` says that it is `ready` once it has warmed up, and takes a `Command` as JSON on each line of its standard input.
To a turn of n steps it answers with a `Turn`; where it queues steps, on a device, to n that are waited for one by one with the
seconds of one. When it is told to finish it verifies what was timed and gives its result. If its standard input ends before, so
does it, without a result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NotRequired, TypedDict

from framebench.suite.tensors import Summaries

# Raised whenever a change makes new numbers incomparable with old ones. 2: Jittor's views count as what they keep. 3: other
# canonical values, verified tensor by tensor; garbage is collected before live bytes are read.
VERSION = 3
HELD = "study-memory"  # begins the names of the blocks of studies/noise that are for memory


@dataclass(frozen=True)
class Reference:
    """Values of another case of the session to verify against, where there are none in float64."""

    case: str
    values: dict[str, float]
    tensors: Summaries


@dataclass(frozen=True)
class Task:
    """One worker's orders."""

    case: str  # a full case id
    part: str  # "time" | "memory" | "look": memory, and verification without times
    warmup: int = 3  # steps that do not count, of those that verification needs
    budget_s: float = 900.0  # a case whose steps would take longer altogether ends at once
    memory_steps: int = 3  # at most so many steady steps whose peak is taken, beginning with the second step of all
    memory_budget_s: float = 1.0  # after which one of them is enough
    core: int | None = None  # pin the process to this core
    built_on: int | None = None  # but until it is ready to this one
    memory_limit: int | None = None  # bytes of private memory the worker may map
    reference: Reference | None = None  # where golden.json has no values
    # For studies of what verdicts find, which plant a known difference. No case is measured like this.
    spin: float = 0.0  # a share of its own time by which each timed step is made longer
    extra: float = 0.0  # a share of its peak by which each step holds more

    @staticmethod
    def from_dict(fields: dict[str, Any]) -> Task:
        """The inverse of `as_dict`."""
        reference = fields.get("reference")
        return Task(**{**fields, "reference": Reference(**reference) if reference else None})

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


class Command(TypedDict, total=False):
    """What a worker that is alive is told to do: one of the first three."""

    turn: int  # so many steps
    synced: int  # so many, waited for one by one
    finish: bool
    core: int  # on which to finish


def turns(count: int, steps: int = 1) -> str:
    """All commands of a block of its own, for a worker whose standard input is a file."""
    commands: list[Command] = [*([Command(turn=steps)] * count), Command(finish=True)]
    return "".join(json.dumps(command) + "\n" for command in commands)


class Ready(TypedDict):
    """Built, verified and warmed up."""

    step_s: float
    verification: dict[str, Any]
    queues: bool  # its steps, on a device


class Turn(TypedDict):
    """Of one step of the turn."""

    wall_s: float
    cpu_s: NotRequired[float]  # those of the reference product are not asked
    instructions: NotRequired[int | None]
    device_s: NotRequired[float | None]


class Mathematics(TypedDict, total=False):
    """What the step of a strategy has shown in float64."""

    case: str  # what was computed: the same strategy, at the smallest size
    computed: bool
    passed: bool
    reason: str  # why it is wrong, or why it was not computed
    tensors: int  # that were compared, and values
    worst: str  # the one that is furthest off
    error: float | None  # its relative error
    tolerance: float


class Effect(TypedDict):
    proven: bool
    evidence: dict[str, Any]


class Origin(TypedDict):
    """What a result was measured with, and how long it took to begin."""

    import_s: NotRequired[float]
    build_s: NotRequired[float]
    versions: dict[str, str]
    device: str
    python: str
    core: int | None


class TimeResult(TypedDict, total=False):
    """Of the part `time`; of a wrong result the verification alone."""

    first_step_s: float
    verification: dict[str, Any]
    cold_peaks: dict[str, int]
    cpu_s_per_step: float
    shares: dict[str, float]  # of the step's time, by purpose
    timed_steps: int
    timed_s: float
    effect: Effect
    waited_s: float  # for turns


class MemoryResult(TypedDict, total=False):
    """Of the part `memory`: bytes by instrument."""

    peaks: dict[str, int]
    peak_samples: list[dict[str, int]]
    cold_peaks: dict[str, int]  # of the first step
    live_bytes: int
    elsewhere: dict[str, int]  # bytes by holder that lie there between two steps beside these; part of every peak on the host
    library_bytes: int  # that a user's steps leave there and no object shows: in no peak of a steady step
    allocator: dict[str, int]


class BatchReport(TypedDict):
    """Of an evaluation under a budget: a batch that begins, was evaluated, or ran out of memory."""

    first: int  # sample
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
    no_device: NotRequired[bool]  # the case is none for this machine
    over_budget: NotRequired[bool]  # its steps would take longer than they may


class Message(TypedDict, total=False):
    """A line of a worker: one of these."""

    phase: str
    measured: Mapping[str, Any]  # of the result
    report: BatchReport
    ready: Ready
    flop: float  # of the reference product, whose process is ready
    turn: Turn
    synced: float
    result: Mapping[str, Any]  # TimeResult or MemoryResult with Origin, or what another entry finds
    error: Failure


LOSS_STEPS = 1  # the second verified loss is observed after this many updates
