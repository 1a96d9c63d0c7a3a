"""Start a worker process, listen to it until it ends, and say what became of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from framebench.instruments import limits
from framebench.measure.environments import Environment
from framebench.records import provenance
from framebench.records.record import Status

LOG_LINES = 25
OOM_COUNTERS = (Path("/sys/fs/cgroup/memory.events"), Path("/proc/vmstat"))  # of the control group, of the whole machine
COMPILER_ERROR = re.compile(r"(?:fatal )?error: |cannot find -l|undefined reference|No such file or directory.*\.(?:h|so)")


@dataclass
class Outcome:
    """What became of one worker."""

    status: Status = "ok"
    reason: str | None = None
    result: dict[str, Any] = field(default_factory=dict)
    log: str = ""
    seconds: float = 0.0
    device_process: int | None = None  # bytes
    device_note: str | None = None  # why there are none
    joules: float | None = None  # of the timed steps, the whole card


class Worker:
    """One worker process: started, listened to, and always gone in the end. What it reports stays here when it dies."""

    def __init__(
        self, environment: Environment, module: str, orders: dict[str, object], variables: dict[str, str], log: Path
    ) -> None:
        self.phase = "start"
        self.final: dict[str, Any] = {}
        self.reports: list[dict[str, Any]] = []
        self.log = log
        # a group of its own: Jittor's compilers die with it, and Ctrl-C reaches us first
        self.process = subprocess.Popen(
            [str(environment.python), "-m", f"framebench.worker.{module}", json.dumps(orders)],
            stdout=subprocess.PIPE, stderr=log.open("wb"), stdin=subprocess.DEVNULL, text=True, start_new_session=True,
            env={**os.environ, **variables, "PYTHONPATH": str(provenance.ROOT)}, cwd=provenance.ROOT,
        )  # fmt: skip

    def listen(self, on_phase: Callable[[str], None]) -> None:
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

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def supervise(worker: Worker, time_limit_s: float, on_phase: Callable[[str], None]) -> Outcome:
    """Listen to a worker until it ends, or end it when its time is up."""
    kills = oom_kills()
    timer = threading.Timer(time_limit_s, worker.kill)
    timer.daemon = True  # interrupted at the wrong moment, the program would wait for it at its end
    try:
        timer.start()
        worker.listen(on_phase)
        worker.process.wait()
    finally:
        expired = not timer.is_alive()
        timer.cancel()
        worker.kill()
    return classify(worker, time_limit_s if expired else None, oom_kills() > kills)


def classify(worker: Worker, expired_s: float | None, oom_killed: bool) -> Outcome:
    """Status and reason from what the worker said last, its exit code, and the kernel's counters."""
    code = worker.process.returncode
    tail = "\n".join(worker.log.read_text(errors="replace").splitlines()[-LOG_LINES:])
    oom, during = f"memory ran out during {worker.phase}", f"during {worker.phase}"
    if "result" in worker.final:
        return Outcome(result=worker.final["result"])
    if "error" in worker.final:
        error = worker.final["error"]
        if error.get("no_device"):
            return Outcome("unsupported", error["message"])
        if error["oom"]:
            return Outcome("oom", f"{oom}, {error['type']}: {error['message']}", log=tail)
        said = f"{error['type']} {during}: {error['message']}"
        return Outcome("crashed", said + compiler_said(tail, error["message"]), log=tail)
    if expired_s is not None:
        return Outcome("timeout", f"no end after {expired_s:g} s, {during}", log=tail)
    name = signal_name(-code) if code < 0 else f"exit code {code}"
    if (oom_killed and code == -signal.SIGKILL) or limits.OUT_OF_MEMORY.search(tail):
        return Outcome("oom", f"{oom}, ended by {name}", log=tail)
    return Outcome("crashed", f"ended by {name} {during}{compiler_said(tail, '')}", log=tail)


def signal_name(number: int) -> str:
    """Most of the real-time signals have no name."""
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def compiler_said(log: str, told: str) -> str:
    """The first error of a compiler or linker in a worker's log, unless the reason tells it: why Jittor cannot build."""
    found = next((line.strip() for line in log.splitlines() if COMPILER_ERROR.search(line)), "")
    return f" (the compiler: {found[:300]})" if found and found not in told else ""


def oom_kills() -> int:
    """How often the kernel has killed for want of memory, as far as it says: what matters is whether this grows."""
    found = 0
    for counter in OOM_COUNTERS:
        with contextlib.suppress(OSError):
            found += int(dict(line.split() for line in counter.read_text().splitlines()).get("oom_kill", 0))
    return found
