"""One order carried out by a fresh process, and what became of it: the parent's side of `probe_worker.py`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from framebench import provenance, runner
from framebench.environments import Environment
from framebench.limits import UNDER, Order, case_of
from framebench.runner import Options, Outcome, Worker

# How a process ends that does not check what an allocator returns. Not SIGKILL: that is somebody else's doing.
UNCHECKED = {-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS}
Progress = Callable[[str], None]  # phase


@dataclass
class Answer(Outcome):
    """What became of an order. `memory`: it ended because the memory that it may have ran out."""

    reports: list[dict[str, Any]] = field(default_factory=list)
    memory: Literal["raised", "died", ""] = ""


class Child(Worker):
    """A probe worker. What it reports stays here when it dies."""

    def __init__(self, environment: Environment, order: Order, variables: dict[str, str], log: Path) -> None:
        self.phase = "start"
        self.final: dict[str, Any] = {}
        self.reports: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            [str(environment.python), "-m", "framebench.probe_worker", json.dumps(order.as_dict())],
            stdout=subprocess.PIPE, stderr=log.open("wb"), stdin=subprocess.DEVNULL, text=True, start_new_session=True,
            env={**os.environ, **variables, "PYTHONPATH": str(provenance.ROOT)}, cwd=provenance.ROOT,
        )  # fmt: skip

    def listen(self, on_phase: Progress) -> None:
        """Read messages until the worker closes its end. A last line without an end was cut off by the worker's death."""
        assert self.process.stdout
        for line in self.process.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                text = f"not a message: {line.strip()[:200]}"
                message = {"error": {"type": "Protocol", "message": text, "oom": False}} if line.endswith("\n") else {}
            if "phase" in message:
                self.phase = message["phase"]
                on_phase(self.phase)
            elif "report" in message:
                self.reports.append(message["report"])
            elif message:
                self.final = message


def carry_out(order: Order, environment: Environment, options: Options, progress: Progress = lambda phase: None) -> Answer:
    """Never raises for the worker's fault."""
    case, oom_kills = case_of(order.case), runner.cgroup_oom_kills()
    with tempfile.TemporaryDirectory(prefix="framebench-") as scratch:
        log = Path(scratch) / "log"
        variables = runner.worker_variables(environment, case, "memory", options) | environment.scratch(Path(scratch))
        child = Child(environment, order, variables, log)
        timer = threading.Timer(options.time_limit_s, child.kill)
        timer.start()
        try:
            child.listen(progress)
            code = child.process.wait()
        finally:
            expired = not timer.is_alive()
            timer.cancel()
            child.kill()
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-runner.LOG_LINES :])
    outcome = runner.classify(child, code, expired, options, tail, runner.cgroup_oom_kills() > oom_kills)
    answer = Answer(outcome.status, outcome.reason, outcome.result, outcome.log, reports=child.reports)
    if answer.status == "oom":
        answer.memory = "raised" if "error" in child.final else "died"
    elif answer.status == "crashed" and code in UNCHECKED and child.phase.endswith(UNDER):
        answer.memory = "died"
    return answer


def first_line(reason: str) -> str:
    """Exceptions about memory go on for pages; Jittor's say further down what happened, in colour."""
    lines = re.sub(r"\x1b\[[\d;]*m", "", reason).splitlines()
    start = reason.partition(": ")[0]
    told = [f"{start}: {line.partition('] ')[2]}" for line in lines if line.startswith("[Reason]: ")]
    return (told or lines or [""])[0][:240]
