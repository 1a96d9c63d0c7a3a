"""Have one order carried out by `worker.py` in a fresh process, and tell what came of it."""

from __future__ import annotations

import re
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from framebench.budget.max_batch.order import UNDER_LIMIT, ProbeOrder
from framebench.engine import runner
from framebench.engine.environments import Environment
from framebench.engine.runner import Options
from framebench.engine.supervisor import Outcome, Worker
from framebench.engine.timed_process import ignore_phase
from framebench.suite.case import Case
from framebench.suite.protocol import BatchReport

# How a process ends that does not check what an allocator returns. SIGKILL is not among them: it
# comes from outside.
UNCHECKED = {-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS}
LONGEST_REASON = 240  # characters
Progress = Callable[[str], None]  # phase


@dataclass
class ProbeOutcome(Outcome):
    """How the process of an order ended."""

    reports: list[BatchReport] = field(default_factory=list)
    ran_out: bool = False  # of the memory that it may have


def run_order(
    order: ProbeOrder, environment: Environment, options: Options, progress: Progress = ignore_phase
) -> ProbeOutcome:
    """Carry out an order in a process of its own, and return how it ended.

    Nothing that the worker does wrong is raised: the outcome's status and reason say it.
    """
    case = Case.from_id(order.case)
    with tempfile.TemporaryDirectory(prefix="framebench-") as scratch:
        env_vars = runner.make_worker_variables(environment, case, "memory", options)
        # its files go into a folder that is removed however it ends
        env_vars |= environment.list_scratch_variables(Path(scratch))
        worker = Worker(environment, "framebench.budget.max_batch.worker", vars(order), env_vars)
        outcome = worker.end(progress, options.time_limit_s)
    has_signal = outcome.status == "crashed" and worker.process.returncode in UNCHECKED
    # in other phases no limit is enforced, so that a signal is a bug and no lack of memory
    is_under_limit = worker.phase.endswith(UNDER_LIMIT)
    return ProbeOutcome(
        **vars(outcome),
        reports=worker.reports,
        ran_out=outcome.status == "oom" or (has_signal and is_under_limit),
    )


def find_first_line(reason: str) -> str:
    """Return the line of a reason that names the error.

    Messages about memory go on for pages. Jittor's name the error in a later line, in colour.
    """
    lines = re.sub(r"\x1b\[[\d;]*m", "", reason).splitlines()
    for line in lines:
        if line.startswith("[Reason]: "):
            exception = reason.partition(": ")[0]
            return f"{exception}: {line.partition('] ')[2]}"[:LONGEST_REASON]
    return lines[0][:LONGEST_REASON] if lines else ""
