"""How a case is measured: the options, what its workers get, and the process that reads its peaks.

The processes for the times are alive together and take turns: `timed_process.py` and `blocks.py`.
What a process has measured becomes a record in `recording.py`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ValidationError

from framebench.engine.environments import Environment
from framebench.engine.supervisor import Outcome, Worker
from framebench.instruments import nvml
from framebench.instruments.host import MALLOC_ENV
from framebench.instruments.nvml import ProcessPeak
from framebench.models.spec import USER_MODEL
from framebench.records import provenance
from framebench.records.record import Record, read_result
from framebench.records.record_base import Status
from framebench.suite import profiles
from framebench.suite.case import Case
from framebench.suite.protocol import Part, Reference, Task, Turn, VerifiedBlock
from framebench.suite.result import Result, StrategyEffect

RESULTS = provenance.ROOT / "results"
# Most processes that are alive at once: more would wait for what they share, such as the disk.
AT_ONCE = 4
# On a machine with a GPU, whose minutes are dear: each process waits for its imports and for CUDA.
AT_ONCE_ON_GPU = 12


@dataclass(frozen=True)
class Options:
    """The settings of a measurement.

    One thread on a pinned core is the calmest that a shared machine offers; both are recorded.
    """

    threads: int = 1
    pin: bool = True  # processes that are timed, to one core
    rounds: int = 8  # of each block; 0 measures no times
    # for each of a case's two workers; a worker that expects to take longer ends at once
    time_limit_s: float = 900.0
    memory_limit: int | None = None  # bytes
    profile: str | None = None  # the profile that the case is measured for
    peaks_each_block: bool = False  # else once in a session: peaks do not drift
    memory: bool = True  # if not, only times are measured
    cold_blocks: int = 1  # how many blocks compile again, so that their first steps count
    # whether no process is built while another one compiles, which would slow down its first step
    first_alone: bool = True

    def make_task(
        self,
        case: Case,
        part: Part,
        reference: Reference | None = None,
        core_until_ready: int | None = None,
        verified: VerifiedBlock | None = None,
    ) -> Task:
        """Return the orders for a worker that measures a part of the case."""
        return Task(
            case.id,
            part,
            budget_s=self.time_limit_s,
            core=self.choose_core() if part == "time" else None,
            core_until_ready=core_until_ready,
            memory_limit=self.memory_limit,
            reference=reference,
            verified=verified,
        )

    def adapt_to(self, environment: Environment) -> Options:
        """Return the options that hold in an environment: a process that uses a GPU is not pinned.

        Its compilers have many threads, and threads that launch kernels must not wait for each
        other.
        """
        if environment.uses_gpu:
            return replace(self, pin=False)
        return self

    def choose_core(self) -> int | None:
        """Return the core that turns are made on, or None if processes are not pinned.

        The core is the last one that this process may use: the parent stays on the others.
        """
        turn_core, *_other_cores = self.list_cores()
        return turn_core

    def list_cores(self) -> tuple[int | None, ...]:
        """Return the core that turns are made on, and others to build and check processes on.

        There are as many as are of use. (None,) stands for one process at a time that is not
        pinned.
        """
        if not self.pin or self.threads != 1:
            return (None,)
        usable = sorted(os.sched_getaffinity(0), reverse=True)
        if not nvml.list_gpus():
            return tuple(usable[:AT_ONCE])
        # on a GPU processes would disturb each other's first steps
        if self.rounds and self.first_alone:
            return tuple(usable[:1])
        return tuple(usable[:AT_ONCE_ON_GPU])


@dataclass(frozen=True)
class Variant:
    """A case in an environment."""

    case: Case
    environment: Environment


DEFAULT_OPTIONS = Options()


def make_worker_variables(
    environment: Environment, case: Case, part: Part, options: Options
) -> dict[str, str]:
    """Return the variables set for a worker on top of the user's; they go into the record."""
    threads = str(options.threads)
    variables = {
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
    }
    variables.update(environment.list_variables())
    variables.update(case.support.env)
    if part == "memory":
        variables.update(MALLOC_ENV)
    user_path = os.environ.get("PYTHONPATH")
    if case.workload == USER_MODEL and user_path:
        variables["PYTHONPATH"] = user_path  # the user's file may import from it
    return variables


@dataclass
class CaseOutcome:
    """The outcome of a worker that measures a case, and its result."""

    status: Status = "ok"
    reason: str | None = None
    result: Result = field(default_factory=Result)
    log: str = ""  # the end of its standard error, where it failed
    seconds: float = 0.0  # from its start to its end, without waiting for turns
    # of the process for the time
    turns: list[Turn] = field(default_factory=list)
    synced_s: list[float] = field(default_factory=list)  # of later steps, waited for one by one
    joules: float | None = None  # of the timed steps, the whole GPU
    resident_bytes: int = 0  # the most that the process held
    # of the process for the memory
    device_peaks: dict[str, int] = field(default_factory=dict)  # bytes by NVML's instruments
    device_note: str | None = None  # why NVML does not tell what the process holds

    @property
    def is_right(self) -> bool:
        """Return whether the worker came to its end and its result is right."""
        return self.status == "ok" and self.result.passed


def read_case_outcome(worker: Worker, outcome: Outcome) -> CaseOutcome:
    """Return what a worker measured of a case, which may have ended early.

    Where everything was measured and verified before it ended, only the proof that the strategy
    was on is missing: then the result stays.
    """
    try:
        if outcome.status == "ok":
            return CaseOutcome(result=read_result(outcome.answer), log=outcome.log)
        measured = read_result(worker.measured)
    except ValidationError as error:
        reason = f"Protocol during {worker.phase}: not a result: {error}"[:2000]
        return CaseOutcome("crashed", reason, log=outcome.log)
    if measured.verification is None:
        return CaseOutcome(outcome.status, outcome.reason, log=outcome.log)
    reason = f"measured and verified, but the strategy was not proven: {outcome.reason}"
    unproven = StrategyEffect(proven=False, evidence={"lost": reason}, reason=outcome.reason)
    return CaseOutcome("ok", reason, replace(measured, effect=unproven), outcome.log)


class MemoryProcess:
    """The process that reads a case's peaks; as part "look" it verifies the case too."""

    def __init__(
        self, variant: Variant, options: Options, scratch: Path, part: Part = "memory"
    ) -> None:
        """Start the process, and watch the memory that it takes on the device."""
        self.started = time.monotonic()
        self.options = options
        scratch.mkdir(parents=True, exist_ok=True)
        case, environment = variant.case, variant.environment
        variables = make_worker_variables(environment, case, "memory", options)
        variables.update(environment.list_scratch_variables(scratch))
        task = options.make_task(case, part)
        # the rise of the whole GPU's use is this process's only where no other one runs
        is_alone = len(options.list_cores()) == 1
        memory = nvml.read_memory() if is_alone else None
        used_before = memory.used if memory else None
        self.worker = Worker(environment, "framebench.worker.worker", task.as_dict(), variables)
        # watched from its first moment: it may end while others are waited for
        self.watching = ExitStack()
        self.device = self.watching.enter_context(ProcessPeak(self.worker.process.pid, used_before))

    def end(self, on_phase: Callable[[str], None]) -> CaseOutcome:
        """Wait until it ends, and return what it measured. Never raises for a worker's fault."""
        with self.watching:
            ended = self.worker.end(on_phase, self.options.time_limit_s)
            outcome = read_case_outcome(self.worker, ended)
        outcome.seconds = time.monotonic() - self.started
        if self.device.peak is not None:
            outcome.device_peaks["device.process"] = self.device.peak
        if self.device.growth is not None:
            outcome.device_peaks["device.card"] = self.device.growth
        outcome.device_note = self.device.note
        return outcome

    def kill(self) -> None:
        """Kill it if it is still alive."""
        self.worker.kill()
        self.watching.close()


def explain_unsupported(case: Case) -> str | None:
    """Return why the case cannot be measured here, or None if it can."""
    if not case.support.supported:
        return case.support.why
    if case.support.gpu and not nvml.list_gpus():
        return f"needs a GPU, which this machine does not have: {case.support.why}"
    return explain_missing_reference(case)


def explain_missing_reference(case: Case) -> str | None:
    """Return why a case cannot be verified for want of reference values, or None if it can.

    Values of a combination that changes the mathematics, and of a batch that its size does not
    declare, are never computed. Such a batch is never verified, and may be run.
    """
    parts = case.strategy_spec.parts
    if case.workload == USER_MODEL or case.size in case.workload_spec.without_golden:
        return None
    if case.golden_key in case.workload_spec.golden:
        return None
    if len(parts) > 1:
        together = " and ".join(part.name for part in parts)
        return f"golden.json has no values for {together} together ({case.golden_key})"
    preset = case.workload_spec.sizes.get(case.size)
    if preset is None or case.batch not in preset.batches:
        return None
    return (
        f"no reference: golden.json has no values for {case.golden_key}; make them: framebench dev "
        f"golden {case.workload} --missing"
    )


def explain_slowness(case: Case) -> str | None:
    """Return why this processor is slow at a case, by its instructions, or None if it is not."""
    if case.strategy_spec.precision != "bf16" or nvml.list_gpus():
        return None
    instructions = provenance.list_bfloat16_instructions()
    if instructions is None or instructions:  # None: the system does not list them
        return None
    return (
        "no bfloat16 units here: the processor computes bfloat16 by way of float32, at a "
        "fraction of the speed"
    )


def is_expected_failure(record: Record) -> bool:
    """Return whether this machine can give no numbers of a case, so that its failure is no fault.

    Either the processor has no units for it, or the framework computes it wrong by itself.
    """
    if record.status == "wrong":
        return record.verification is not None and record.verification.known_fault
    return record.status == "timeout" and explain_slowness(record.parsed) is not None


def limit_time(case: Case, options: Options) -> Options:
    """Return the options, with the profile's shorter time limit on a processor slow at the case."""
    if options.profile is None or not explain_slowness(case):
        return options
    slow_limit_s = profiles.find_profile(options.profile).slow_limit_s
    if not slow_limit_s:
        return options
    return replace(options, time_limit_s=min(slow_limit_s, options.time_limit_s))


def read_load_average() -> float:
    """Return the one-minute load average."""
    return os.getloadavg()[0]
