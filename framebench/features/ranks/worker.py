"""One case over several ranks, one part of it: `python -m framebench.features.ranks.worker '{"case": ..., "part": "time"}'`.

As `worker.py`, but for the times: ranks that share cores tell nothing of them. Where a framework has a process for each rank,
this one becomes the framework's launcher, which starts it once more in every rank; JAX has none, and its processes are started
here. They go through the same steps together, and the first rank speaks for all of them; an error may come from any.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import socket
import subprocess
import sys
import time
from typing import Any

from framebench import adapters
from framebench.adapters.base import Adapter
from framebench.instruments import limits
from framebench.suite.case import Case
from framebench.suite.protocol import MemoryResult, Origin, Task, TimeResult
from framebench.suite.selectors import parse
from framebench.worker.tolerances import observe_steps
from framebench.worker.verification import verify
from framebench.worker.worker import Emit, WorkerError, die_with_parent, effect_of, limit_memory, peaks, serve

LAUNCHED = {"torch": ("torch.distributed.run", "--standalone", "--nproc-per-node")}  # and so many ranks


def _launch(case: Case) -> None:
    """Become the framework's launcher, unless it has started this process, or needs none."""
    if "RANK" in os.environ:
        return
    again = ["-m", "framebench.features.ranks.worker", *sys.argv[1:]]
    if case.framework in LAUNCHED:
        die_with_parent()
        os.execv(sys.executable, [sys.executable, "-m", *LAUNCHED[case.framework], str(case.ranks), *again])
    if any(part.options.get("processes") for part in case.parts):
        die_with_parent()
        sys.exit(start(case.ranks, again))


def start(ranks: int, arguments: list[str]) -> int:
    """So many processes that meet at an address, until all have ended or one has failed; its exit status."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    variables = os.environ | {"JAX_COORDINATOR_ADDRESS": f"localhost:{port}"}
    every = [subprocess.Popen([sys.executable, *arguments], env=variables | {"RANK": str(i)}) for i in range(ranks)]
    while None in (codes := [process.poll() for process in every]) and not any(codes):
        time.sleep(0.05)
    for process in every:
        process.kill()
        process.wait()
    return next(filter(None, codes), 0)


def first() -> bool:
    return os.environ.get("RANK", "0") == "0"


def _measure_results(adapter: Adapter, emit: Emit) -> TimeResult:
    """Every rank has gathered the whole tensors, and compares them."""
    emit({"phase": "first step"})
    verified = observe_steps(adapter)
    seconds = verified.seconds
    verification = verify(adapter, verified.observed, verified.tolerances)
    if not verification["passed"]:
        return {"verification": verification}
    emit({"phase": "effect"})
    return {"first_step_s": seconds[0], "verification": verification, "effect": effect_of(adapter)}


def _measure_memory(adapter: Adapter, task: Task, emit: Emit) -> MemoryResult:
    """Peaks of each rank. All ranks make as many steps, however long they take."""
    emit({"phase": "first step"})
    cold = peaks(adapter)
    emit({"phase": "memory"})
    steady = [peaks(adapter) for _ in range(task.memory_steps)]
    return {
        "peaks": {name: max(p[name] for p in steady) for name in steady[0]},
        "peak_samples": steady,
        "cold_peaks": cold,
        "live_bytes": adapter.live_bytes(),
    }


def run(task: Task, emit: Emit) -> dict[str, Any]:
    case = parse(task.case)
    ours = importlib.import_module(f"framebench.adapters.{case.framework}.ranks")
    speak: Emit = emit if first() else lambda message: None
    speak({"phase": "import"})
    ours.begin(case.ranks)
    adapter = adapters.load(case)
    limit_memory(task)
    adapter.budget_s = task.budget_s
    speak({"phase": "build"})
    try:
        adapter.build()
        adapter.synchronize()
        part = _measure_results(adapter, speak) if task.part == "time" else _measure_memory(adapter, task, speak)
        every = ours.gathered(adapter, part)
    except Exception as error:
        raise WorkerError(error, limits.ran_out(error, limits.enforced())) from error
    origin: Origin = {
        "versions": adapter.versions(),
        "device": adapter.device(),
        "python": platform.python_version(),
        "core": None,
    }
    if task.part == "time":
        return {**_joined(every), **origin}
    return {"ranks": [{"rank": i, **measurement} for i, measurement in enumerate(every)], **origin}


def _joined(every: list[dict[str, Any]]) -> dict[str, Any]:
    """The first rank's, or that of one which came out wrong; proven only where it is in all."""
    measurement = next((one for one in every if not one["verification"]["passed"]), every[0])
    if "effect" in measurement:
        proven = [one["effect"]["proven"] for one in every]
        measurement["effect"] = {
            "proven": all(proven),
            "evidence": measurement["effect"]["evidence"] | {"proven_in_ranks": sum(proven)},
        }
    return {name: measurement[name] for name in ("first_step_s", "verification", "effect") if name in measurement}


def carry_out(orders: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Lines of several ranks at once would run into each other: only the first gives a result."""
    answer = run(Task.from_dict(orders), emit)
    if not first():
        sys.stderr.flush()
        os._exit(0)
    return answer


if __name__ == "__main__":
    _launch(parse(json.loads(sys.argv[1])["case"]))
    serve(carry_out)
