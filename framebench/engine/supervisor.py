"""Start a worker process, listen to it until it ends, and say what became of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from framebench.engine.environments import Environment, import_path
from framebench.instruments import limits
from framebench.records.record import Status
from framebench.suite.protocol import BatchReport, Command, Message

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
    on_device: dict[str, int] = field(default_factory=dict)  # bytes by instrument, as NVML tells them from outside
    device_note: str | None = None  # why there are none of the process
    joules: float | None = None  # of the timed steps, the whole card
    held: int = 0  # the most bytes that a process that took turns has held


class Worker:
    """One worker process: started, listened to, and always gone in the end. What it reports stays here when it dies.

    One that is `live` takes orders on its standard input.
    """

    def __init__(
        self, environment: Environment, module: str, orders: dict[str, object], variables: dict[str, str], log: Path,
        live: bool = False,
    ) -> None:  # fmt: skip
        self.phase = "start"
        self.final: Message = {}
        self.measured: dict[str, Any] = {}  # of the result, as soon as it was known
        self.reports: list[BatchReport] = []
        self.expired_s: float | None = None  # the limit at which it was ended
        self.log = log
        self.kills = oom_kills()
        # a group of its own: Jittor's compilers die with it, and Ctrl-C reaches us first
        self.process = subprocess.Popen(
            [str(environment.python), "-P", "-m", module, json.dumps(orders)],
            stdout=subprocess.PIPE, stderr=log.open("wb"), stdin=subprocess.PIPE if live else subprocess.DEVNULL, text=True,
            env={**os.environ, **variables, "PYTHONPATH": import_path(variables.get("PYTHONPATH"))}, start_new_session=True,
        )  # fmt: skip

    def tell(self, command: Command) -> None:
        """A command is far shorter than a pipe is deep, and the next follows the answer to this one. To a dead worker it is
        lost: listening tells that it is dead."""
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()

    def hear(self, on_phase: Callable[[str], None], limit_s: float) -> Message | None:
        """The next message that is an answer or the end; None when the worker has closed its end, or was ended because
        its time is up."""
        with self.limited(limit_s):
            return self.next(on_phase)

    def next(self, on_phase: Callable[[str], None]) -> Message | None:
        """A last line without an end was cut off by the worker's death."""
        assert self.process.stdout
        while line := self.process.stdout.readline():
            message: Message
            try:
                message = json.loads(line)
            except ValueError:
                text = f"not a message: {line.strip()[:200]}"
                message = {"error": {"type": "Protocol", "message": text, "oom": False}} if line.endswith("\n") else {}
            if "phase" in message:
                self.phase = message["phase"]
                on_phase(self.phase)
            elif "measured" in message:
                self.measured |= message["measured"]
            elif "report" in message:
                self.reports.append(message["report"])
            elif message:
                if ("result" in message or "error" in message) and "error" not in self.final:
                    self.final = message  # of several ranks the first error is the cause, and the others follow from it
                return message
        return None

    @contextlib.contextmanager
    def limited(self, limit_s: float) -> Iterator[None]:
        """In here the worker has so much time; then it is killed, which closes its end."""

        def expire() -> None:
            self.expired_s = limit_s
            self.kill()

        timer = threading.Timer(limit_s, expire)
        timer.daemon = True  # interrupted at the wrong moment, the program would wait for it at its end
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def end(self, on_phase: Callable[[str], None], limit_s: float) -> Outcome:
        """Listen until it ends, or end it when its time is up, and say what became of it."""
        try:
            with self.limited(limit_s):
                while self.next(on_phase) is not None:
                    pass
                self.process.wait()
        finally:
            self.kill()
        return self.outcome()

    def outcome(self) -> Outcome:
        """End it, and say what became of it."""
        self.kill()
        return _without_proof(classify(self, oom_kills() > self.kills), self.measured)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stdin:
            with contextlib.suppress(OSError):  # an order that nobody took
                self.process.stdin.close()


def classify(worker: Worker, oom_killed: bool) -> Outcome:
    """Status and reason from what the worker said last, its exit code, and the kernel's counters."""
    code = worker.process.returncode
    tail = "\n".join(worker.log.read_text(errors="replace").splitlines()[-LOG_LINES:])
    oom, during = f"memory ran out during {worker.phase}", f"during {worker.phase}"
    if "result" in worker.final:
        return Outcome(result=dict(worker.final["result"]))
    if "error" in worker.final:
        error = worker.final["error"]
        if error.get("no_device"):
            return Outcome("unsupported", error["message"])
        if error.get("over_budget"):
            return Outcome("timeout", f"{error['message']}, {during}")
        if error["oom"]:
            return Outcome("oom", f"{oom}, {error.get('blamed') or error['type'] + ': ' + error['message']}", log=tail)
        cause = error.get("blamed") or f"{error['type']} {during}: {error['message']}"
        return Outcome("crashed", cause + _compiler_said(tail, error["message"]), log=tail)
    if worker.expired_s is not None:
        return Outcome("timeout", f"no end after {worker.expired_s:g} s, {during}", log=tail)
    name = signal_name(-code) if code < 0 else f"exit code {code}"
    if (oom_killed and code == -signal.SIGKILL) or limits.OUT_OF_MEMORY.search(tail):
        return Outcome("oom", f"{oom}, ended by {name}", log=tail)
    return Outcome("crashed", f"ended by {name} {during}{_compiler_said(tail, '')}", log=tail)


def _without_proof(outcome: Outcome, measured: dict[str, Any]) -> Outcome:
    """Whatever ended a worker when all was measured and verified, it took no more than the proof that the strategy was on."""
    if outcome.status == "ok" or "verification" not in measured:
        return outcome
    lost = f"measured and verified, but the strategy was not proven: {outcome.reason}"
    return replace(
        outcome, status="ok", reason=lost, result=measured | {"effect": {"proven": False, "evidence": {"lost": lost}}}
    )


def signal_name(number: int) -> str:
    """Most of the real-time signals have no name."""
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def _compiler_said(log: str, told: str) -> str:
    """The first error of a compiler or linker in a worker's log, unless the reason tells it: why Jittor cannot build."""
    error_line = next((line.strip() for line in log.splitlines() if COMPILER_ERROR.search(line)), "")
    return f" (the compiler: {error_line[:300]})" if error_line and error_line not in told else ""


def oom_kills() -> int:
    """How often the kernel has killed for want of memory, as far as it says: what matters is whether this grows."""
    kills = 0
    for counter in OOM_COUNTERS:
        with contextlib.suppress(OSError):
            kills += int(dict(line.split() for line in counter.read_text().splitlines()).get("oom_kill", 0))
    return kills
