"""Have one order carried out by `worker.py` in a fresh process, and tell what came of it."""

from __future__ import annotations

import re
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from framebench.budget.max_batch.order import UNDER, ProbeOrder
from framebench.engine import runner
from framebench.engine.environments import Environment
from framebench.engine.runner import Options
from framebench.engine.supervisor import Outcome, Worker
from framebench.engine.timed_process import ignore_phase
from framebench.suite.case import Case
from framebench.suite.protocol import BatchReport

# How a process ends that does not check what an allocator returns. Not SIGKILL: that is somebody
# else's doing.
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
        variables = runner.make_worker_variables(environment, case, "memory", options)
        # what it writes is gone with it, however it ends
        variables |= environment.list_scratch_variables(Path(scratch))
        worker = Worker(environment, "framebench.budget.max_batch.worker", vars(order), variables)
        ended = worker.end(progress, options.time_limit_s)
    # outside of the limit a signal is a bug, and no lack of memory
    died = ended.status == "crashed" and worker.process.returncode in UNCHECKED
    return ProbeOutcome(
        **vars(ended),
        reports=worker.reports,
        ran_out=ended.status == "oom" or (died and worker.phase.endswith(UNDER)),
    )


def find_first_line(reason: str) -> str:
    """Return the line of a reason that names the error.

    Exceptions about memory go on for pages; Jittor's say it further down, in colour.
    """
    lines = re.sub(r"\x1b\[[\d;]*m", "", reason).splitlines()
    for line in lines:
        if line.startswith("[Reason]: "):
            exception = reason.partition(": ")[0]
            return f"{exception}: {line.partition('] ')[2]}"[:LONGEST_REASON]
    return lines[0][:LONGEST_REASON] if lines else ""
