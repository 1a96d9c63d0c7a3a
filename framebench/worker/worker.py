"""One case, one process, one part: `python -m framebench.worker.worker '{"case": ..., "part": "time"}'`.

Runs inside the framework's environment: standard library, NumPy and that framework only. Time and memory are measured by
separate processes, since what makes memory visible (allocator settings, counters) slows the step. The one for the time waits
for its turns among other live processes: it makes steps when a line on standard input says so (`suite/protocol.py`).
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import math
import os
import platform
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, TextIO

from framebench import adapters
from framebench.adapters.base import Adapter
from framebench.instruments import limits
from framebench.instruments.counters import Counter
from framebench.instruments.host import HostPeak
from framebench.models.spec import OWN, workload
from framebench.suite.case import Case
from framebench.suite.protocol import Command, Effect, Failure, MemoryResult, Message, Origin, Task, TimeResult
from framebench.suite.selectors import parse
from framebench.suite.strategy import IncompatibleStrategies
from framebench.suite.user_file import DoesNotApply, Fault, blamed, line_of
from framebench.worker.stepping import OverBudget, Timing, timed_step
from framebench.worker.tolerances import observe_steps
from framebench.worker.verification import verify, verify_again

Emit = Callable[[Message], None]
Commands = Iterable[Command]
CarryOut = Callable[[dict[str, Any], Emit], Mapping[str, Any]]  # the orders on the command line -> the result


def own_stdout() -> TextIO:
    """Standard output for us alone: whatever a framework prints goes to standard error."""
    ours = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return ours


class Abandoned(Exception):
    """Whoever gave the orders is gone."""


class NoDevice(Exception):
    """The case needs a GPU, and this framework has none."""


class WorkerError(Exception):
    """What the framework raised while a case was built or ran; whether memory ran out could be told at that moment only."""

    def __init__(self, cause: BaseException, oom: bool) -> None:
        super().__init__(str(cause))
        self.cause, self.oom = cause, oom


def measure_time(
    adapter: Adapter, task: Task, emit: Emit, commands: Commands = (), counter: Counter | None = None
) -> TimeResult:
    """Verified steps and warm-up; then turns as they are ordered; then what was timed is verified.

    Raises Abandoned if the commands end before they say that it is finished.
    """
    emit({"phase": "first step"})
    verified = observe_steps(adapter)
    seconds, tolerances = verified.seconds, verified.tolerances
    verification = verify(adapter, verified.observed, tolerances, task.reference)
    result: TimeResult = {"first_step_s": seconds[0], "verification": verification}
    if adapter.device() != "cpu":  # here the programs are compiled and tuned: the memory worker finds them made
        result["cold_peaks"] = {name: size for name, size in adapter.own_peaks().items() if name.startswith("allocator.")}
    if not verification["passed"]:
        return result  # the time of a wrong computation is of no interest
    emit({"phase": "warm-up"})
    while adapter.steps - adapter.restored_at < task.warmup:
        seconds.append(timed_step(adapter))
    emit({"phase": "timing"})
    adapter.budget_s = math.inf  # it was found to be fast enough: one long step is an accident now
    timing = Timing(adapter, counter, task.spin)
    timing.losses.append(adapter.loss())
    if task.built_on is not None and task.core is not None:
        move({task.core})
    emit({"ready": {"step_s": seconds[-1], "verification": verification, "queues": adapter.device() != "cpu"}})
    waited = _take_turns(timing, emit, commands)
    if not math.isfinite(last := adapter.loss()):
        raise ArithmeticError(f"the loss became {last} while timing")
    emit({"phase": "verification of what was timed"})
    verification["again"] = verify_again(adapter, timing.losses, tolerances, task.reference)
    if not verification["again"]["passed"]:
        return {"verification": verification | {"passed": False}}
    result |= timing.summary()
    emit({"measured": result})
    emit({"phase": "effect"})
    return result | {"effect": effect_of(adapter), "waited_s": waited}


def effect_of(adapter: Adapter) -> Effect:
    effect = adapter.effect()
    return {"proven": effect.proven, "evidence": effect.evidence}


def _take_turns(timing: Timing, emit: Emit, commands: Commands) -> float:
    """Answer commands until one says that it is finished; the seconds between them. Raises Abandoned."""
    waited, since = 0.0, time.perf_counter()
    for command in commands:
        waited += time.perf_counter() - since
        if "finish" in command:
            move({command["core"]} if "core" in command else set())
            return waited
        emit({"turn": timing.turn(command["turn"])} if "turn" in command else {"synced": timing.synced(command["synced"])})
        since = time.perf_counter()
    raise Abandoned


def measure_memory(adapter: Adapter, task: Task, emit: Emit) -> MemoryResult:
    """Peaks of the first (cold) and of steady steps by every instrument that exists here."""
    emit({"phase": "first step"})
    cold = peaks(adapter)
    start = time.perf_counter()
    emit({"phase": "memory"})
    if task.extra:
        _hold_more(adapter, task.extra)
    steady = [peaks(adapter)]
    while len(steady) < task.memory_steps and time.perf_counter() - start < task.memory_budget_s:
        steady.append(peaks(adapter))
    result: MemoryResult = {
        "peaks": {name: max(p[name] for p in steady) for name in steady[0]},
        "peak_samples": steady,
        "cold_peaks": cold,
        "live_bytes": adapter.live_bytes(),
        "elsewhere": adapter.elsewhere(),
        "allocator": adapter.counters(),
    }
    if adapter.counts_blocks():
        result["library_bytes"] = adapter.library_bytes()
    return result


def look(adapter: Adapter, task: Task, emit: Emit) -> MemoryResult | TimeResult:
    """Memory first, as in a process that does nothing else; then the steps from the first weights are verified."""
    found = measure_memory(adapter, task, emit)
    emit({"phase": "verification"})
    verified = observe_steps(adapter)
    verification = verify(adapter, verified.observed, verified.tolerances, task.reference)
    if not verification["passed"]:
        return {"verification": verification}
    result: dict[str, Any] = {**found, "verification": verification, "effect": effect_of(adapter)}
    return result  # type: ignore[return-value]


def peaks(adapter: Adapter) -> dict[str, int]:
    """Bytes by instrument of one step."""
    adapter.release()
    if collected := gc.isenabled():  # garbage in cycles is no state; where a strategy keeps the collector off, it stays
        gc.collect()
    host = HostPeak()
    on_host = HostPeak.available() and adapter.device() == "cpu"  # else the tensors are not in host memory
    live, elsewhere = adapter.live_bytes(), sum(adapter.elsewhere().values()) if adapter.device() == "cpu" else 0
    adapter.reset_peak()
    if on_host:
        host.start(collect=not collected)
    timed_step(adapter)
    peak_bytes = {name: size + elsewhere for name, size in adapter.own_peaks().items()}
    if on_host:
        peak_bytes["host.rss"] = live + elsewhere + host.grown()
    return peak_bytes


def _hold_more(adapter: Adapter, share: float) -> None:
    """From now on each step holds more bytes: this share of what its peak is without them. Only studies ask for that."""
    plain = peaks(adapter)
    size = round(share * next(plain[name] for name in ("allocator.in_use", "host.rss") if name in plain))
    adapter.allocate(size)  # once before: the first time it may be compiled
    step = adapter.one_step

    def larger_step() -> None:
        held = adapter.allocate(size)
        step()
        adapter.synchronize()
        del held

    adapter.one_step = larger_step  # type: ignore[method-assign]


def limit_memory(task: Task) -> None:
    if task.memory_limit is not None:
        import resource

        if task.memory_limit <= (mapped := limits.mapped()):
            asked, imports = (f"{size / 2**20:,.1f} MiB" for size in (task.memory_limit, mapped))
            raise MemoryError(f"the limit of {asked} is too small: the imports alone map {imports}")
        resource.setrlimit(resource.RLIMIT_DATA, (task.memory_limit, task.memory_limit))


def limit_own(case: Case) -> None:
    """What a user's file makes may take what the machine had to spare, and not what others on it have."""
    room = case.spec.facts.get("limit") if case.workload == OWN else None  # type: ignore[attr-defined]
    if room is not None and limits.card_bytes() is None:
        limits.limit_growth(room)


def run(task: Task, emit: Emit, commands: Commands) -> dict[str, Any]:
    """Build the case and measure the task's part of it. Raises Abandoned, and WorkerError for what the framework raises."""
    if (core := task.core if task.built_on is None else task.built_on) is not None:
        os.sched_setaffinity(0, {core})
    counter = Counter.open() if task.part == "time" else None  # its heirs are the threads that begin after this
    case = parse(task.case)
    clock = time.perf_counter
    marks = [clock()]
    emit({"phase": "import"})
    adapter = adapters.load(case)
    marks.append(clock())
    limit_memory(task)
    if case.support.gpu and adapter.device() == "cpu":
        raise NoDevice(f"needs a GPU, and this {case.framework} ({adapter.versions()[case.framework]}) finds none it can use")
    if task.part == "time":
        adapter.budget_s = task.budget_s
    emit({"phase": "build"})
    try:
        limit_own(case)
        adapter.build()
        adapter.synchronize()
        marks.append(clock())
        origin: Origin = {
            "import_s": marks[1] - marks[0], "build_s": marks[2] - marks[1], "versions": adapter.versions(),
            "device": adapter.device(), "python": platform.python_version(), "core": task.core,
        }  # fmt: skip
        emit({"measured": origin})
        result: TimeResult | MemoryResult
        if task.part == "time":
            result = measure_time(adapter, task, emit, commands, counter)
        else:
            result = (look if task.part == "look" else measure_memory)(adapter, task, emit)
    except Abandoned:
        raise
    except Exception as error:
        raise WorkerError(error, limits.ran_out(error, limits.enforced())) from error
    measurement: dict[str, Any] = {**result, **origin}
    return measurement | {"work_s": clock() - marks[2] - measurement.pop("waited_s", 0.0)}


def move(cores: set[int]) -> None:
    """Let every thread use these cores; where none is named, those that it has."""
    for thread in Path("/proc/self/task").iterdir() if cores else ():
        with contextlib.suppress(OSError):  # it has ended
            os.sched_setaffinity(int(thread.name), cores)


def _blamed_file(error: BaseException) -> str:
    """Where in the user's file the error came from, and what it is; empty if it did not."""
    if isinstance(error, Fault):
        return str(error)
    file = workload(OWN).facts.get("file", "")  # type: ignore[attr-defined]
    return blamed(error, file) if file and line_of(error, file) else ""


def die_with_parent() -> None:
    """A killed parent takes its worker along. Linux only; elsewhere the worker ends with its case."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        with contextlib.suppress(OSError):  # where memory runs out it is for us to go, and for nobody else on the machine
            Path("/proc/self/oom_score_adj").write_text("1000")


def own_orders() -> Iterator[Command]:
    """Standard input, one JSON object a line, for us alone: compilers that a framework starts find nothing there."""
    ours = os.fdopen(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    return map(json.loads, ours)


def serve(carry_out: CarryOut) -> NoReturn:
    """Carry out the orders on the command line, and say what came of it."""
    code = answer(carry_out)
    sys.stderr.flush()
    os._exit(code)  # everything is said: freeing a framework piece by piece only costs time


def answer(carry_out: CarryOut) -> int:
    die_with_parent()
    out = own_stdout()

    def emit(message: Message) -> None:
        print(json.dumps(message), file=out)

    try:
        emit({"result": carry_out(json.loads(sys.argv[1]), emit)})
    except Abandoned:
        return 1
    except (Exception, SystemExit) as error:
        emit({"error": failure(error)})
        traceback.print_exception(_cause_of(error))
        return 1
    return 0


def failure(error: BaseException) -> Failure:
    """What the parent is told of it."""
    cause = _cause_of(error)
    return {
        "type": type(cause).__name__,
        "message": str(cause)[:2000],
        "oom": error.oom if isinstance(error, WorkerError) else isinstance(error, MemoryError),
        "blamed": _blamed_file(cause),
        "no_device": isinstance(cause, NoDevice | DoesNotApply | IncompatibleStrategies),
        "over_budget": isinstance(cause, OverBudget),
    }


def _cause_of(error: BaseException) -> BaseException:
    return error.cause if isinstance(error, WorkerError) else error


if __name__ == "__main__":
    serve(lambda task, emit: run(Task.from_dict(task), emit, own_orders()))
