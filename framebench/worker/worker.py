"""One case, one process, one part: `python -m framebench.worker.worker '{"case": ..., "part": "time"}'`.

Runs inside the framework's environment: standard library, NumPy and that framework only. Time and memory are measured by
separate processes, since what makes memory visible (allocator settings, counters) slows the step.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TextIO

from framebench import adapters
from framebench.adapters.base import Adapter
from framebench.instruments import limits
from framebench.instruments.host import HostPeak
from framebench.suite.protocol import Task
from framebench.suite.selectors import parse
from framebench.worker.observe import first_steps
from framebench.worker.stepping import timed_step
from framebench.worker.verification import again, verify

Emit = Callable[[dict[str, Any]], None]


def own_stdout() -> TextIO:
    """Standard output for us alone: whatever a framework prints goes to standard error."""
    ours = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return ours


class NoDevice(Exception):
    """The case needs a GPU, and this framework has none."""


def sample(adapter: Adapter, task: Task, wall: list[float], losses: list[float]) -> dict[str, Any]:
    """Seconds of steady steps, those in `wall` included: at most `samples`, fewer when the budget is spent, one of them new. In
    training `losses` gets the loss of each, read when its clock has stopped."""
    device: list[float] = []
    events = adapter.events()
    cpu, start, before = time.process_time(), time.perf_counter(), len(wall)
    adapter.spent.clear()
    wanted, least = max(task.samples, before + 1), max(task.min_samples, before + 1)
    while len(wall) < wanted and (len(wall) < least or time.perf_counter() - start < task.budget_s):
        wall.append(timed_step(adapter, events, device))
        if adapter.case.stage.trains:
            losses.append(adapter.loss())
    total, steps = sum(wall[before:]), len(wall) - before
    shares = {purpose: seconds / total for purpose, seconds in adapter.spent.items()}
    found = {"step_s": wall, "device_step_s": device, "cpu_s_per_step": (time.process_time() - cpu) / steps, "shares": shares}
    return found | {"timed_steps": steps, "timed_s": total}


def measure_time(adapter: Adapter, task: Task, emit: Emit) -> dict[str, Any]:
    emit({"phase": "first step"})
    seconds, observed = first_steps(adapter)
    verification = verify(adapter, observed, task.reference)
    result: dict[str, Any] = {"first_step_s": seconds[0], "verification": verification}
    if adapter.device() != "cpu":  # here the programs are compiled and tuned: the memory worker finds them made
        result["cold_peaks"] = {name: size for name, size in adapter.own_peaks().items() if name.startswith("allocator.")}
    if not verification["passed"]:
        return result  # the time of a wrong computation is of no interest
    emit({"phase": "warm-up"})
    while len(seconds) < task.warmup:
        seconds.append(timed_step(adapter))
    emit({"phase": "timing"})
    losses = [adapter.loss()]
    result |= sample(adapter, task, seconds[task.warmup :], losses)
    if not math.isfinite(last := adapter.loss()):
        raise ArithmeticError(f"the loss became {last} while timing")
    emit({"phase": "verification of what was timed"})
    verification["again"] = again(adapter, losses, task.reference)
    if not verification["again"]["passed"]:
        return {"verification": verification | {"passed": False}}
    emit({"phase": "effect"})
    effect = adapter.effect()
    result["effect"] = {"proven": effect.proven, "evidence": effect.evidence}
    return result


def measure_memory(adapter: Adapter, task: Task, emit: Emit) -> dict[str, Any]:
    """Peaks of the first (cold) and of steady steps by every instrument that exists here."""
    emit({"phase": "first step"})
    cold = peaks(adapter)
    start = time.perf_counter()
    emit({"phase": "memory"})
    steady = [peaks(adapter)]
    while len(steady) < task.memory_steps and time.perf_counter() - start < task.memory_budget_s:
        steady.append(peaks(adapter))
    return {
        "peaks": {name: max(p[name] for p in steady) for name in steady[0]},
        "peak_samples": steady,
        "cold_peaks": cold,
        "live_bytes": adapter.live_bytes(),
        "allocator": adapter.counters(),
    }


def peaks(adapter: Adapter) -> dict[str, int]:
    """Bytes by instrument of one step."""
    adapter.release()
    if gc.isenabled():  # garbage in cycles is no state; where a strategy keeps the collector off, it stays
        gc.collect()
    host = HostPeak()
    live = adapter.live_bytes()
    adapter.reset_peak()
    on_host = HostPeak.available() and adapter.device() == "cpu"  # else the tensors are not in host memory
    if on_host:
        host.start()
    timed_step(adapter)
    found = adapter.own_peaks()
    if on_host:
        found["host.rss"] = live + host.grown()
    return found


def limit_memory(task: Task) -> None:
    if task.memory_limit is not None:
        import resource

        if task.memory_limit <= (mapped := limits.mapped()):
            asked, imports = (f"{size / 2**20:,.1f} MiB" for size in (task.memory_limit, mapped))
            raise MemoryError(f"the limit of {asked} is too small: the imports alone map {imports}")
        resource.setrlimit(resource.RLIMIT_DATA, (task.memory_limit, task.memory_limit))


def run(task: Task, emit: Emit) -> dict[str, Any]:
    """Build the case and measure the task's part of it."""
    if task.core is not None:
        os.sched_setaffinity(0, {task.core})
    case = parse(task.case)
    clock = time.perf_counter
    marks = [clock()]
    emit({"phase": "import"})
    adapter = adapters.load(case)
    marks.append(clock())
    limit_memory(task)
    if case.support.gpu and adapter.device() == "cpu":
        raise NoDevice(f"needs a GPU, and this {case.framework} ({adapter.versions()[case.framework]}) finds none it can use")
    emit({"phase": "build"})
    try:
        adapter.build()
        adapter.synchronize()
        marks.append(clock())
        part = measure_time if task.part == "time" else measure_memory
        result = part(adapter, task, emit)
    except Exception as error:
        error.oom = limits.ran_out(error, limits.enforced())  # type: ignore[attr-defined]
        raise
    result |= {"import_s": marks[1] - marks[0], "build_s": marks[2] - marks[1], "work_s": clock() - marks[2]}
    return result | {"versions": adapter.versions(), "device": adapter.device(), "python": platform.python_version()}


def die_with_parent() -> None:
    """A killed parent takes its worker along. Linux only; elsewhere the worker ends with its case."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        with contextlib.suppress(OSError):  # where memory runs out it is for us to go, and for nobody else on the machine
            Path("/proc/self/oom_score_adj").write_text("1000")


def serve(carry_out: Callable[[dict[str, Any], Emit], dict[str, Any]]) -> NoReturn:
    """Carry out the orders on the command line, and say what came of it."""
    code = answer(carry_out)
    sys.stderr.flush()
    os._exit(code)  # everything is said: freeing a framework piece by piece only costs time


def answer(carry_out: Callable[[dict[str, Any], Emit], dict[str, Any]]) -> int:
    die_with_parent()
    out = own_stdout()

    def emit(message: dict[str, Any]) -> None:
        print(json.dumps(message), file=out)

    try:
        emit({"result": carry_out(json.loads(sys.argv[1]), emit)})
    except Exception as error:
        oom = getattr(error, "oom", isinstance(error, MemoryError))
        absent = isinstance(error, NoDevice)
        emit({"error": {"type": type(error).__name__, "message": str(error)[:2000], "oom": oom, "no_device": absent}})
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    serve(lambda orders, emit: run(Task.from_dict(orders), emit))
