"""Define what a worker finds out about a case: what crosses the pipe and goes into the record.

A worker has only the standard library and NumPy, so these are plain dataclasses. In the parent
pydantic checks the same classes, when a worker's answer is read (`records.record.read_result`) and
as fields of a `Record`. Bytes are bytes, times are seconds, and what was not measured is None or
empty, never zero.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from framebench.suite.tensors import Summary


@dataclass(frozen=True)
class TensorComparison:
    """The tensors of one kind next to their references.

    Kinds are gradients, weights, buffers, states of the optimizer and outputs. `worst` is the
    tensor with the largest error in units of its tolerance. That error is of its norm or of its
    projections on random vectors, as `by` says.
    """

    count: int
    failed: int  # how many are beyond their tolerance
    worst: str
    by: str
    error: float | None  # None: not finite
    tolerance: float

    @property
    def margin(self) -> float:
        """Return the error in units of its tolerance: above 1 it is wrong."""
        return math.nan if self.error is None else self.error / self.tolerance


@dataclass(frozen=True)
class Mathematics:
    """The comparison of a strategy's float64 step with the reference (`worker/mathematics.py`)."""

    case: str  # the computed case: the same strategy, as a rule at the size `tiny`
    # if not, `reason` says why, and only the measured step was checked, in its own precision
    computed: bool
    passed: bool
    reason: str | None = None
    tensors: int = 0
    worst: str = ""
    error: float | None = None  # relative, of the worst value or tensor
    tolerance: float | None = None


@dataclass(frozen=True)
class RepeatedVerification:
    """The verification that follows the timed steps.

    It looks at the timed steps: in training none may leave the loss as it was. Then, unless another
    block has verified every tensor (`Verification.verified_in`), it makes more steps: in training
    the first ones again, from the first weights; without an update a further one, after one with
    other inputs. They must give the verified values, with which `relative_error`, `tensors` and
    `margin` compare them.
    """

    passed: bool
    reason: str | None = None
    unmoved_steps: int = 0
    relative_error: dict[str, float | None] = field(default_factory=dict)
    tensors: dict[str, TensorComparison] = field(default_factory=dict)
    margin: float | None = None


@dataclass(frozen=True)
class Verification:
    """Each observed value and tensor next to its reference, before the timed steps and after."""

    passed: bool
    reason: str | None = None
    # the framework itself computes this wrong on this machine, as a trial of it has shown
    known_fault: bool = False
    # the source of `golden` if two frameworks have not agreed on its values: a record of the same
    # session, or one framework
    against: str | None = None
    # the earlier block of the session that verified its tensors: here only losses were compared
    verified_in: str | None = None
    observed: dict[str, float | None] = field(default_factory=dict)
    golden: dict[str, float] = field(default_factory=dict)
    relative_error: dict[str, float | None] = field(default_factory=dict)
    tolerance: dict[str, float] = field(default_factory=dict)
    tensors: dict[str, TensorComparison] = field(default_factory=dict)  # by kind
    # the largest error over its tolerance, of values and tensors: beyond 1 it is wrong
    margin: float | None = None
    state_bytes: int | None = None  # of the optimizer
    still: bool = False  # without random numbers, since the strategy draws others than the baseline
    again: RepeatedVerification | None = None
    mathematics: Mathematics | None = None  # older records have none
    # where they are a reference for other cases
    summaries: dict[str, dict[str, Summary]] = field(default_factory=dict)


@dataclass(frozen=True)
class StrategyEffect:
    """Proof, by something other than memory, that the strategy was on.

    `evidence` is what was counted.
    """

    proven: bool
    evidence: dict[str, Any]
    # the failed expectation, if it is not proven; older records have none
    reason: str | None = None


@dataclass(frozen=True)
class Origin:
    """The versions, device and core of a measurement, and how long it took to begin."""

    versions: dict[str, str]
    device: str
    python: str
    core: int | None = None
    import_s: float | None = None
    build_s: float | None = None


@dataclass(frozen=True)
class TimeResult:
    """The results of the process for the time, without its turns, which it reports one by one."""

    first_step_s: float | None = None
    # of the first step on a device, where programs are compiled and tuned: the memory process finds
    # them in the cache
    cold_peaks: dict[str, int] = field(default_factory=dict)
    cpu_s_per_step: float | None = None
    shares: dict[str, float] = field(default_factory=dict)  # of the step's time, by purpose
    timed_steps: int = 0
    timed_s: float = 0.0
    waited_s: float = 0.0  # for turns


@dataclass(frozen=True)
class MemoryResult:
    """The memory that steps take, by instrument."""

    peaks: dict[str, int]  # of a steady step
    peak_samples: list[dict[str, int]] = field(default_factory=list)
    cold_peaks: dict[str, int] = field(default_factory=dict)  # of the first step
    live_bytes: int | None = None
    # by holder, next to `live_bytes`; part of every peak on the host
    elsewhere: dict[str, int] = field(default_factory=dict)
    # bytes that a user's steps leave on the host and no object shows; in no steady peak
    library_bytes: int | None = None
    allocator: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class RankMemory:
    """The memory of one of the processes or devices that share a case."""

    memory: MemoryResult
    # bytes between two steps by what holds them: parameters, gradients, optimizer states
    held: dict[str, int]


@dataclass(frozen=True)
class Result:
    """All that a worker has found out about a case so far; what it does not measure stays None."""

    origin: Origin | None = None
    verification: Verification | None = None
    times: TimeResult | None = None
    memory: MemoryResult | None = None
    effect: StrategyEffect | None = None
    ranks: list[RankMemory] = field(default_factory=list)
    work_s: float | None = None  # after the build, without waiting for turns

    @property
    def passed(self) -> bool:
        """Return whether nothing was found to be wrong."""
        return self.verification is None or self.verification.passed


def to_json(value: Any) -> dict[str, Any]:
    """Return a dataclass of this module as JSON values; NaN and infinity become None."""
    fields: dict[str, Any] = drop_infinities(asdict(value))
    return fields


def drop_infinities(tree: Any) -> Any:
    """Replace NaN and infinity at any depth by None: JSON has no such numbers."""
    if isinstance(tree, dict):
        return {name: drop_infinities(value) for name, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [drop_infinities(value) for value in tree]
    if isinstance(tree, float) and not math.isfinite(tree):
        return None
    return tree
