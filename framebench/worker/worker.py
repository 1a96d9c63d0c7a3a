"""Measure one part of one case in a process of its own: `python -m framebench.worker.worker TASK`.

TASK is a `Task` as JSON, such as '{"case": "transformer/torch/train/fp32/b4/tiny", "part":
"time"}'. The process runs inside the framework's environment: the standard library, NumPy and that
framework only. Time and memory are measured by separate processes, since what makes memory visible
(allocator settings, counters) slows the step. The process for the time waits for its turns among
other live processes: it makes steps when a line on standard input says so (`suite/protocol.py`).
"""

from __future__ import annotations

import contextlib
import gc
import json
import math
import os
import platform
import resource
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, TextIO

from framebench import adapters
from framebench.adapters.base import Adapter
from framebench.instruments import cores, limits
from framebench.instruments.counters import Counter
from framebench.instruments.host import HostPeak
from framebench.instruments.parent_death import die_with_parent
from framebench.models.spec import USER_MODEL, load_workload
from framebench.strategies.strategy import IncompatibleStrategies
from framebench.suite.protocol import Command, Failure, Message, Ready, Task
from framebench.suite.result import MemoryResult, Origin, Result, TimeResult, to_json
from framebench.suite.selectors import parse
from framebench.suite.user_file import DoesNotApply, Fault, describe_fault, find_line
from framebench.worker.observe import restart
from framebench.worker.stepping import OverBudget, Timing, make_timed_step
from framebench.worker.verification import (
    check_timed_steps,
    confirm_first_steps,
    find_reference,
    make_verified_steps,
    verify_again,
)

Emit = Callable[[Message], None]
Commands = Iterable[Command]
# bytes that libraries take in steady steps, by which their peaks may be too large
LIBRARY_GROWTH = 2**19
MOST_GROWING_STEPS = 20
SETTLED = 0.01  # the share by which what is held between steps may change
LONGEST_MESSAGE = 2000  # characters of an exception
# the orders on the command line -> the result as JSON
CarryOut = Callable[[dict[str, Any], Emit], Mapping[str, Any]]


class Abandoned(Exception):
    """The parent is gone: nobody sends commands any more."""


class NoDevice(Exception):
    """The case needs a GPU, and this framework has none."""


class WorkerError(Exception):
    """An error that the framework raised while a case was built or ran.

    `oom` says whether memory ran out, which is only known at that moment.
    """

    def __init__(self, cause: BaseException, oom: bool) -> None:
        """Keep the cause and `oom`; the message is that of the cause."""
        super().__init__(str(cause))
        self.cause = cause
        self.oom = oom


def run(task: Task, emit: Emit, commands: Commands) -> dict[str, Any]:
    """Build the case, measure the task's part of it, and return the `Result` as JSON.

    Raises Abandoned if the parent is gone, NoDevice and MemoryError before the build, and
    WorkerError for what the framework raises.
    """
    building_core = task.core if task.core_until_ready is None else task.core_until_ready
    if building_core is not None:
        cores.pin(building_core)
    # opened before the framework is imported: threads that begin after this are counted too
    counter = Counter.open() if task.part == "time" else None
    case = parse(task.case)
    start = time.perf_counter()
    emit({"phase": "import"})
    uses_collector = any(part.switch == "collector" for part in case.parts)
    if task.part == "look" and not uses_collector:
        adapter = adapters.load_frozen(case)  # a first look must be quick
    else:
        adapter = adapters.load(case)
    imported = time.perf_counter()
    limit_memory(task)
    if case.support.gpu and adapter.device() == "cpu":
        release = adapter.versions()[case.framework]
        raise NoDevice(f"needs a GPU, and this {case.framework} ({release}) finds none it can use")
    if task.part == "time":
        adapter.budget_s = task.budget_s
    emit({"phase": "build"})
    try:
        free_before = case.workload_spec.facts.get("limit")  # at the first run of a user's file
        if free_before is not None and limits.read_gpu_memory() is None:
            limits.limit_growth(free_before)
        adapter.build()
        adapter.synchronize()
        built = time.perf_counter()
        origin = Origin(
            versions=adapter.versions(),
            device=adapter.device(),
            python=platform.python_version(),
            core=task.core,
            import_s=imported - start,
            build_s=built - imported,
        )
        result = Result(origin=origin)
        emit({"measured": to_json(result)})
        if task.part == "time":
            result = measure_time(adapter, task, result, emit, commands, counter)
        elif task.part == "memory":
            result = replace(result, memory=measure_memory(adapter, task, emit))
        else:
            result = measure_memory_and_verify(adapter, task, result, emit)
    except Abandoned:
        raise
    except Exception as error:
        raise WorkerError(error, limits.is_out_of_memory(error, limits.is_enforced())) from error
    waited_s = result.times.waited_s if result.times else 0.0
    return to_json(replace(result, work_s=time.perf_counter() - built - waited_s))


def measure_time(
    adapter: Adapter,
    task: Task,
    result: Result,
    emit: Emit,
    commands: Commands,
    counter: Counter | None = None,
) -> Result:
    """Verify the first steps, warm up, make the turns that are ordered, and verify the timed steps.

    Raises Abandoned if the commands end before the one to finish, and ArithmeticError if the loss
    does not stay finite.
    """
    emit({"phase": "first step"})
    reference = find_reference(adapter.case, task.reference) if task.verified else None
    if task.verified and reference:
        first_steps, verification = confirm_first_steps(adapter, reference, task.verified)
    else:
        first_steps, verification = make_verified_steps(adapter, task.reference)
    times = TimeResult(first_step_s=first_steps.seconds[0], cold_peaks=read_cold_peaks(adapter))
    result = replace(result, verification=verification, times=times)
    if not verification.passed:
        return result  # a wrong computation is not timed
    emit({"phase": "warm-up"})
    step_s = first_steps.seconds[-1]
    while adapter.steps - adapter.restored_at < task.warmup:
        step_s = make_timed_step(adapter)
    emit({"phase": "timing"})
    adapter.budget_s = math.inf  # the case is fast enough: a single long step is an accident
    timing = Timing(adapter, counter)
    timing.losses.append(adapter.loss())
    if task.core_until_ready is not None and task.core is not None:
        cores.pin(task.core)
    ready = Ready(
        step_s=step_s, verification=to_json(verification), queues=adapter.device() != "cpu"
    )
    emit({"ready": ready})
    waited_s = take_turns(timing, emit, commands)
    loss = adapter.loss()
    if not math.isfinite(loss):
        raise ArithmeticError(f"the loss became {loss} while timing")
    emit({"phase": "verification of what was timed"})
    if verification.verified_in:
        again = check_timed_steps(adapter, timing.losses, reference)
    else:
        again = verify_again(adapter, timing.losses, first_steps.tolerances, task.reference)
    result = replace(
        result,
        verification=replace(verification, passed=again.passed, again=again),
        times=replace(timing.summarize(times), waited_s=waited_s),
    )
    if not again.passed:
        return result
    # the parent keeps this if the proof that the strategy was on ends the process
    emit({"measured": to_json(result)})
    emit({"phase": "effect"})
    return replace(result, effect=adapter.judge_effect())


def read_cold_peaks(adapter: Adapter) -> dict[str, int]:
    """Return the allocator's peaks of the first step on a device; none on a CPU.

    Only this process compiles and tunes programs: the memory process takes them from the cache.
    """
    if adapter.device() == "cpu":
        return {}
    cold_peaks = {}
    for name, size in adapter.read_peaks().items():
        if name.startswith("allocator."):
            cold_peaks[name] = size
    return cold_peaks


def take_turns(timing: Timing, emit: Emit, commands: Commands) -> float:
    """Carry out commands until one ends the timing, and return the seconds spent waiting for them.

    Raises Abandoned if the commands end before.
    """
    waited_s = 0.0
    idle_since = time.perf_counter()
    for command in commands:
        waited_s += time.perf_counter() - idle_since
        if "finish" in command:
            if "core" in command:
                cores.pin(command["core"])
            return waited_s
        if "turn" in command:
            emit({"turn": timing.turn(command["turn"])})
        else:
            emit({"synced": timing.time_synced_steps(command["synced"])})
        idle_since = time.perf_counter()
    raise Abandoned


def measure_memory(adapter: Adapter, task: Task, emit: Emit) -> MemoryResult:
    """Return the peaks of the first (cold) step and of steady steps, by instrument, in bytes."""
    emit({"phase": "first step"})
    cold = measure_peaks(adapter)
    emit({"phase": "memory"})
    steady = repeat_new_shapes(adapter, lambda: measure_steady_peaks(adapter, task))
    return MemoryResult(
        peaks=find_largest_peaks(steady),
        peak_samples=steady,
        cold_peaks=cold,
        live_bytes=adapter.live_bytes(),
        elsewhere=adapter.untracked_bytes(),
        library_bytes=adapter.library_bytes() if adapter.can_read_malloc() else None,
        allocator=adapter.read_counters(),
    )


def repeat_new_shapes(
    adapter: Adapter,
    measure_steps: Callable[[], list[dict[str, int]]],
    restart_steps: Callable[[Adapter], None] = restart,
) -> list[dict[str, int]]:
    """Return the peaks of the steps after the first one, by instrument, in bytes.

    `measure_steps` makes these steps and returns their peaks. Each may have shapes that no step
    before it had, as where a mixture of experts routes other numbers of tokens, and a library has
    kept a kernel for each. The same steps have the same shapes: repeated, they take what the
    program itself needs. The adapter has made a single step since its first weights, to which
    `restart_steps` returns.
    """
    library_bytes = adapter.library_bytes()
    steady = measure_steps()
    library_growth = adapter.library_bytes() - library_bytes
    if library_growth <= LIBRARY_GROWTH or not adapter.can_restore:
        return steady
    restart_steps(adapter)
    measure_peaks(adapter)  # the first step, which makes the optimizer's states
    return [measure_peaks(adapter) for _ in steady]


def measure_steady_peaks(adapter: Adapter, task: Task) -> list[dict[str, int]]:
    """Return the peaks of each steady step, by instrument, in bytes.

    These are at least a whole period of steps, since the one that updates weights may need most.
    """
    start = time.perf_counter()
    least_steps = adapter.workload.update_period
    held = adapter.live_bytes()
    steady = [measure_peaks(adapter)]
    while len(steady) < max(task.memory_steps, least_steps):
        has_all_kinds = len(steady) >= least_steps
        if has_all_kinds and time.perf_counter() - start >= task.memory_budget_s:
            break
        steady.append(measure_peaks(adapter))
    if has_grown(held, adapter):
        steady += measure_growing_steps(adapter)
    return steady


def measure_growing_steps(adapter: Adapter) -> list[dict[str, int]]:
    """Return the peaks of steps of which all but the last leave more than they found.

    L-BFGS, for instance, keeps gradients of so many steps. The list is empty if the growth does not
    end: no number of steps has the peak of such a program.
    """
    growing = []
    for _ in range(MOST_GROWING_STEPS):
        held = adapter.live_bytes()
        growing.append(measure_peaks(adapter))
        if not has_grown(held, adapter):
            return growing
    return []


def has_grown(held: int, adapter: Adapter) -> bool:
    """Return whether more than these bytes are held now, by more than tensors vary in size."""
    return adapter.live_bytes() > held * (1 + SETTLED)


def measure_memory_and_verify(adapter: Adapter, task: Task, result: Result, emit: Emit) -> Result:
    """Read the peaks, as in a process of its own, then verify the steps from the first weights."""
    memory = measure_memory(adapter, task, emit)
    emit({"phase": "verification"})
    _, verification = make_verified_steps(adapter, task.reference)
    result = replace(result, verification=verification)
    if not verification.passed:
        return result
    return replace(result, memory=memory, effect=adapter.judge_effect())


def measure_peaks(adapter: Adapter) -> dict[str, int]:
    """Make one step and return its peak in bytes by instrument."""
    adapter.release()
    # objects in reference cycles are no state; if a strategy has switched the collector off, they
    # stay
    collects = gc.isenabled()
    if collects:
        gc.collect()
    on_cpu = adapter.device() == "cpu"
    live_bytes = adapter.live_bytes()
    untracked_bytes = 0
    if on_cpu:  # otherwise tensors are not in host memory
        untracked_bytes = sum(adapter.untracked_bytes().values())
    host = HostPeak()
    reads_host = on_cpu and HostPeak.is_available()
    adapter.reset_peak()
    if reads_host:
        host.start(collect=not collects)
    make_timed_step(adapter)
    peak_bytes = {}
    for name, size in adapter.read_peaks().items():
        peak_bytes[name] = size + untracked_bytes
    if reads_host:
        peak_bytes["host.rss"] = live_bytes + untracked_bytes + host.measure_growth()
    return peak_bytes


def find_largest_peaks(samples: list[dict[str, int]]) -> dict[str, int]:
    """Return the largest of several peaks in bytes, by instrument."""
    return {name: max(sample[name] for sample in samples) for name in samples[0]}


def limit_memory(task: Task) -> None:
    """Enforce the task's limit of memory. Raises MemoryError if even the imports exceed it."""
    if task.memory_limit is None:
        return
    mapped = limits.measure_mapped()
    if task.memory_limit <= mapped:
        raise MemoryError(
            f"the limit of {task.memory_limit / 2**20:,.1f} MiB is too small: the imports alone "
            f"map {mapped / 2**20:,.1f} MiB"
        )
    resource.setrlimit(resource.RLIMIT_DATA, (task.memory_limit, task.memory_limit))


def serve(carry_out: CarryOut) -> NoReturn:
    """Carry out the orders on the command line, print the result, and end the process."""
    code = run_and_report(carry_out)
    sys.stderr.flush()
    # not `sys.exit`: to free a framework piece by piece would only cost time
    os._exit(code)


def run_and_report(carry_out: CarryOut) -> int:
    """Carry out the orders on the command line, and print the result or the error.

    Returns the exit code of the process.
    """
    let_kernel_kill()
    out = reserve_stdout()

    def emit(message: Message) -> None:
        print(json.dumps(message), file=out)

    try:
        emit({"result": carry_out(json.loads(sys.argv[1]), emit)})
    except Abandoned:
        return 1
    except (Exception, SystemExit) as error:
        emit({"error": describe_failure(error)})
        traceback.print_exception(find_cause(error))
        return 1
    return 0


def let_kernel_kill() -> None:
    """Let the kernel kill this process with its parent, and before others if memory runs out."""
    die_with_parent()
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def reserve_stdout() -> TextIO:
    """Redirect standard output to standard error, and return the former for messages alone."""
    messages = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return messages


def read_orders() -> Iterator[Command]:
    """Return the orders on standard input, one JSON object a line.

    Compilers that a framework starts find an empty standard input.
    """
    lines = os.fdopen(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    return map(json.loads, lines)


def describe_failure(error: BaseException) -> Failure:
    """Return an error as the message that the parent gets."""
    cause = find_cause(error)
    return {
        "type": type(cause).__name__,
        "message": str(cause)[:LONGEST_MESSAGE],
        "oom": error.oom if isinstance(error, WorkerError) else isinstance(error, MemoryError),
        "blamed": find_blame(cause)[:LONGEST_MESSAGE],
        "no_device": isinstance(cause, NoDevice | DoesNotApply | IncompatibleStrategies),
        "over_budget": isinstance(cause, OverBudget),
    }


def find_cause(error: BaseException) -> BaseException:
    """Return the error that the framework raised."""
    return error.cause if isinstance(error, WorkerError) else error


def find_blame(error: BaseException) -> str:
    """Return where in the user's file an error came from, or "" if it came from elsewhere."""
    if isinstance(error, Fault):
        return str(error)
    file = load_workload(USER_MODEL).facts.get("file", "")
    if not file or not find_line(error, file):
        return ""
    return describe_fault(error, file)


def run_orders(orders: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Run the task that the command line gives, with the commands on standard input."""
    return run(Task.from_dict(orders), emit, read_orders())


if __name__ == "__main__":
    serve(run_orders)
