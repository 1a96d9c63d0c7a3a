"""One order carried out by a fresh process, and what became of it: the parent's side of `worker.py`."""

from __future__ import annotations

import re
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from framebench.budget.max_batch.order import UNDER, Order
from framebench.engine import runner
from framebench.engine.environments import Environment
from framebench.engine.runner import Options
from framebench.engine.supervisor import Outcome, Worker
from framebench.suite.case import Case
from framebench.suite.protocol import BatchReport

# How a process ends that does not check what an allocator returns. Not SIGKILL: that is somebody else's doing.
UNCHECKED = {-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS}
Progress = Callable[[str], None]  # phase


@dataclass
class Answer(Outcome):
    """What became of an order. `memory`: it ended because the memory that it may have ran out."""

    reports: list[BatchReport] = field(default_factory=list)
    memory: Literal["raised", "died", ""] = ""


def carry_out(order: Order, environment: Environment, options: Options, progress: Progress = lambda phase: None) -> Answer:
    """Never raises for the worker's fault."""
    case = Case.of(order.case)
    with tempfile.TemporaryDirectory(prefix="framebench-") as scratch:
        variables = runner.worker_variables(environment, case, "memory", options) | environment.scratch(Path(scratch))
        worker = Worker(environment, "framebench.budget.max_batch.worker", order.as_dict(), variables, Path(scratch) / "log")
        outcome = worker.end(progress, options.time_limit_s)
    answer = Answer(outcome.status, outcome.reason, outcome.answer, outcome.log, reports=worker.reports)
    if answer.status == "oom":
        answer.memory = "raised" if "error" in worker.final else "died"
    elif answer.status == "crashed" and worker.process.returncode in UNCHECKED and worker.phase.endswith(UNDER):
        answer.memory = "died"
    return answer


def first_line(reason: str) -> str:
    """Exceptions about memory go on for pages; Jittor's say further down what happened, in colour."""
    lines = re.sub(r"\x1b\[[\d;]*m", "", reason).splitlines()
    start = reason.partition(": ")[0]
    told = [f"{start}: {line.partition('] ')[2]}" for line in lines if line.startswith("[Reason]: ")]
    return (told or lines or [""])[0][:240]
