"""One case over several ranks, one part of it: `python -m framebench.ranks.worker '{"case": ..., "part": "time"}'`.

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
from framebench.suite.protocol import Task
from framebench.suite.result import MemoryResult, Origin, RankMemory, Result, StrategyEffect, TimeResult, to_json
from framebench.suite.selectors import parse
from framebench.worker.tolerances import observe_steps
from framebench.worker.verification import verify
from framebench.worker.worker import Emit, WorkerError, die_with_parent, largest_of_each, limit_memory, peaks, serve

LAUNCHED = {"torch": ("torch.distributed.run", "--standalone", "--nproc-per-node")}  # and so many ranks


def _launch(case: Case) -> None:
    """Become the framework's launcher, unless it has started this process, or needs none."""
    if "RANK" in os.environ:
        return
    again = ["-m", "framebench.ranks.worker", *sys.argv[1:]]
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


def _verify(adapter: Adapter, emit: Emit) -> Result:
    """Verify the first steps: every rank has gathered the whole tensors, and compares them."""
    emit({"phase": "first step"})
    first_steps = observe_steps(adapter)
    verification = verify(adapter, first_steps.observed, first_steps.tolerances)
    if not verification.passed:
        return Result(verification=verification)
    emit({"phase": "effect"})
    times = TimeResult(first_step_s=first_steps.seconds[0])
    return Result(verification=verification, times=times, effect=adapter.judge_effect())


def _measure_memory(adapter: Adapter, task: Task, emit: Emit) -> MemoryResult:
    """Read the peaks of this rank. All ranks make as many steps, however long they take."""
    emit({"phase": "first step"})
    cold = peaks(adapter)
    emit({"phase": "memory"})
    steady = [peaks(adapter) for _ in range(task.memory_steps)]
    return MemoryResult(largest_of_each(steady), steady, cold, adapter.live_bytes())


def run(task: Task, emit: Emit) -> dict[str, Any]:
    """Measure the task's part of the case, and return the `Result` as JSON. Raises WorkerError."""
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
        if task.part == "time":
            result = _verify(adapter, speak)
            gathered = ours.gathered(adapter, {"result": to_json(result), **_verdict_of(result)})
            joined = _join_verified(gathered)
        else:
            memory = _measure_memory(adapter, task, speak)
            gathered = ours.gathered(adapter, to_json(memory))
            joined = to_json(Result(ranks=[_rank_of(each) for each in gathered]))
    except Exception as error:
        raise WorkerError(error, limits.is_out_of_memory(error, limits.is_enforced())) from error
    joined["origin"] = to_json(Origin(adapter.versions(), adapter.device(), platform.python_version()))
    return joined


def _verdict_of(result: Result) -> dict[str, bool]:
    """Say for the other ranks whether this one is right, and whether the strategy was on in it."""
    return {"passed": result.passed, "proven": result.effect is not None and result.effect.proven}


def _join_verified(every: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the first rank's result, or that of one which came out wrong. It is proven only where it is in all ranks."""
    wrong = [each["result"] for each in every if not each["passed"]]
    if wrong:
        return dict(wrong[0])
    result = dict(every[0]["result"])
    proven = [each["proven"] for each in every]
    evidence = result["effect"]["evidence"] | {"proven_in_ranks": sum(proven)}
    reason = result["effect"]["reason"]
    if reason is None and not all(proven):
        reason = f"proven in {sum(proven)} of {len(proven)} ranks"
    result["effect"] = to_json(StrategyEffect(all(proven), evidence, reason))
    return result


def _rank_of(gathered: dict[str, Any]) -> RankMemory:
    """Return what one rank has measured, and what it holds."""
    held = gathered.pop("held")
    return RankMemory(MemoryResult(**gathered), held)


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
