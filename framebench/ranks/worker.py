"""Measure one part of one case over several ranks.

`python -m framebench.ranks.worker '{"case": ..., "part": "time"}'`

It does what `framebench.worker.worker` does, without step times: ranks that share cores would tell
nothing of them. Where a framework has a process for each rank, this process becomes the framework's
launcher, which starts this program again in every rank; JAX has no launcher, so its processes are
started here. They go through the same steps together, and the first rank speaks for all of them; an
error may come from any.
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
from framebench.suite.protocol import Message, Task
from framebench.suite.result import (
    MemoryResult,
    Origin,
    RankMemory,
    Result,
    StrategyEffect,
    TimeResult,
    to_json,
)
from framebench.suite.selectors import parse
from framebench.worker.tolerances import observe_steps
from framebench.worker.verification import verify
from framebench.worker.worker import (
    Emit,
    WorkerError,
    find_largest_peaks,
    let_kernel_kill,
    limit_memory,
    measure_peaks,
    serve,
)

# the number of ranks follows
LAUNCHERS = {"torch": ("torch.distributed.run", "--standalone", "--nproc-per-node")}
POLL_S = 0.05
IS_FIRST = os.environ.get("RANK", "0") == "0"  # speaks for all ranks, or is the only process


def launch_ranks(case: Case) -> None:
    """Become the framework's launcher, or start the ranks and exit when they end.

    In a rank, or for a framework without processes, it returns.
    """
    if "RANK" in os.environ:  # set for each rank by its launcher
        return
    arguments = ["-m", "framebench.ranks.worker", *sys.argv[1:]]
    launcher = LAUNCHERS.get(case.framework)
    if launcher:
        let_kernel_kill()
        os.execv(sys.executable, [sys.executable, "-m", *launcher, str(case.ranks), *arguments])
    if any(part.options.get("processes") for part in case.parts):
        let_kernel_kill()
        sys.exit(run_processes(case.ranks, arguments))


def run_processes(ranks: int, arguments: list[str]) -> int:
    """Run a process of this Python for each rank, and return the exit status.

    Waits until all have ended or one has failed. The processes meet at the address in
    JAX_COORDINATOR_ADDRESS.
    """
    # the port is free again when the socket is closed, and the first rank takes it
    with socket.socket() as free_socket:
        free_socket.bind(("localhost", 0))
        _host, port = free_socket.getsockname()
    processes = []
    for rank in range(ranks):
        env_vars = {
            **os.environ,
            "JAX_COORDINATOR_ADDRESS": f"localhost:{port}",
            "RANK": str(rank),
        }
        processes.append(subprocess.Popen([sys.executable, *arguments], env=env_vars))
    statuses: list[int | None] = [None]
    # once one has failed, the others would wait for it
    while None in statuses and not any(statuses):
        time.sleep(POLL_S)
        statuses = [process.poll() for process in processes]
    for process in processes:
        process.kill()
        process.wait()
    return next((status for status in statuses if status), 0)


def run(task: Task, emit: Emit) -> dict[str, Any]:
    """Measure the task's part of the case, and return the `Result` as JSON. Raises WorkerError."""
    case = parse(task.case)
    ranks = importlib.import_module(f"framebench.adapters.{case.framework}.ranks")
    if not IS_FIRST:  # lines of several ranks at once would run into each other
        emit = say_nothing
    emit({"phase": "import"})
    ranks.prepare_ranks(case.ranks)
    adapter = adapters.load(case)
    limit_memory(task)
    adapter.budget_s = task.budget_s
    emit({"phase": "build"})
    try:
        adapter.build()
        adapter.synchronize()
        if task.part == "time":
            result = verify_first_steps(adapter, emit)
            answer = {"result": to_json(result), "passed": result.passed}
            joined = join_verified(ranks.gather_readings(adapter, answer))
        else:
            memory = measure_memory(adapter, task, emit)
            measured = []
            for rank in ranks.gather_readings(adapter, to_json(memory)):
                bytes_by_part = rank.pop("held")
                measured.append(RankMemory(MemoryResult(**rank), bytes_by_part))
            joined = to_json(Result(ranks=measured))
    except Exception as error:
        raise WorkerError(error, limits.is_out_of_memory(error, limits.is_enforced())) from error
    joined["origin"] = to_json(
        Origin(adapter.versions(), adapter.device(), platform.python_version())
    )
    return joined


def verify_first_steps(adapter: Adapter, emit: Emit) -> Result:
    """Verify the first steps: every rank has gathered the whole tensors, and compares them."""
    emit({"phase": "first step"})
    first_steps = observe_steps(adapter)
    verification = verify(adapter, first_steps.observed, first_steps.tolerances)
    if not verification.passed:
        return Result(verification=verification)
    emit({"phase": "effect"})
    times = TimeResult(first_step_s=first_steps.seconds[0])
    return Result(verification=verification, times=times, effect=adapter.judge_effect())


def measure_memory(adapter: Adapter, task: Task, emit: Emit) -> MemoryResult:
    """Read the peaks of this rank."""
    emit({"phase": "first step"})
    cold = measure_peaks(adapter)
    emit({"phase": "memory"})
    # all of them, however long they take: if a rank made fewer, the others would wait for it
    steady = [measure_peaks(adapter) for _ in range(task.memory_steps)]
    return MemoryResult(find_largest_peaks(steady), steady, cold, adapter.live_bytes())


def join_verified(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the result of the first rank that failed verification, or else of rank 0.

    The effect of the strategy is proven only if it is proven in all ranks.
    """
    for answer in answers:
        if not answer["passed"]:
            return dict(answer["result"])
    effects = [answer["result"]["effect"] for answer in answers]
    proven = sum(effect["proven"] for effect in effects)
    evidence = {**effects[0]["evidence"], "proven_in_ranks": proven}
    reason = effects[0]["reason"]
    if reason is None and proven < len(answers):
        reason = f"proven in {proven} of {len(answers)} ranks"
    effect = StrategyEffect(proven=proven == len(answers), evidence=evidence, reason=reason)
    return {**answers[0]["result"], "effect": to_json(effect)}


def say_nothing(message: Message) -> None:
    """Emit nothing: what all ranks but the first do with a message."""


def carry_out(orders: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Measure the case of the orders. The first rank returns the result; the others exit."""
    answer = run(Task.from_dict(orders), emit)
    if not IS_FIRST:
        sys.stderr.flush()
        os._exit(0)
    return answer


if __name__ == "__main__":
    launch_ranks(parse(json.loads(sys.argv[1])["case"]))
    serve(carry_out)
