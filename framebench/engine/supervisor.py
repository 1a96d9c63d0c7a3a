"""Start a worker process, listen to it until it ends, and say what became of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from framebench.engine.environments import Environment, import_path
from framebench.instruments import limits
from framebench.records.record import Status
from framebench.suite.protocol import BatchReport, Command, Failure, Message

LOG_LINES = 25
# of the control group, of the whole machine
OOM_COUNTERS = (Path("/sys/fs/cgroup/memory.events"), Path("/proc/vmstat"))
COMPILER_ERROR = re.compile(
    r"(?:fatal )?error: |cannot find -l|undefined reference|No such file or directory.*\.(?:h|so)"
)

OnPhase = Callable[[str], None]


@dataclass
class Outcome:
    """How a worker ended, and what it has answered."""

    status: Status = "ok"
    reason: str | None = None
    answer: Mapping[str, Any] = field(default_factory=dict)  # its result as JSON
    log: str = ""  # the end of its standard error, where it failed


class Worker:
    """One worker process: started, listened to, and always gone in the end.

    What it reports stays here when it dies.

    One that is `live` takes commands on its standard input.
    """

    def __init__(
        self,
        environment: Environment,
        module: str,
        orders: dict[str, object],
        variables: dict[str, str],
        log: Path,
        live: bool = False,
    ) -> None:
        self.phase = "start"
        self.final: Message = {}
        self.measured: Mapping[str, Any] = {}  # the result as far as the worker knew it
        self.reports: list[BatchReport] = []
        self.expired_s: float | None = None  # the limit at which it was killed
        self.log = log
        self.kills_before = oom_kills()
        self.process = subprocess.Popen(
            [str(environment.python), "-P", "-m", module, json.dumps(orders)],
            stdout=subprocess.PIPE,
            stderr=log.open("wb"),
            stdin=subprocess.PIPE if live else subprocess.DEVNULL,
            text=True,
            env={**os.environ, **variables, "PYTHONPATH": import_path(variables.get("PYTHONPATH"))},
            # Jittor's compilers die with their group, and Ctrl-C reaches us first
            start_new_session=True,
        )

    def send(self, command: Command) -> None:
        """Send a command. To a dead worker it is lost: `receive` tells that it is dead.

        It never blocks: a command is far shorter than a pipe is deep, and the next one follows the
        answer to this one.
        """
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()

    def receive(self, on_phase: OnPhase, limit_s: float) -> Message | None:
        """Return the next answer, the result or the error.

        None: the worker has closed its end, or was killed because its time is up.
        """
        with self.limited(limit_s):
            return self.read_message(on_phase)

    def read_message(self, on_phase: OnPhase) -> Message | None:
        """Take in what the worker reports on the way, and return its next answer, its result or its
        error.
        """
        assert self.process.stdout
        for line in self.process.stdout:
            message = parse_message(line)
            if "phase" in message:
                self.phase = message["phase"]
                on_phase(self.phase)
            elif "measured" in message:
                self.measured = message["measured"]
            elif "report" in message:
                self.reports.append(message["report"])
            elif message:
                ends = "result" in message or "error" in message
                # of several ranks the first error is the cause of the others
                if ends and "error" not in self.final:
                    self.final = message
                return message
        return None

    @contextlib.contextmanager
    def limited(self, limit_s: float) -> Iterator[None]:
        """Give the worker so much time in this context; then it is killed, which closes its end."""

        def expire() -> None:
            self.expired_s = limit_s
            self.kill()

        timer = threading.Timer(limit_s, expire)
        # interrupted at the wrong moment, the program would wait for it at its end
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def end(self, on_phase: OnPhase, limit_s: float) -> Outcome:
        """Listen until the worker ends, and say what became of it.

        It is killed when an answer, or its end, takes longer than so many seconds.
        """
        try:
            while self.receive(on_phase, limit_s) is not None:
                pass
            with self.limited(limit_s):
                self.process.wait()
        finally:
            self.kill()
        return self.outcome()

    def outcome(self) -> Outcome:
        """Kill the worker if it is still alive, and say what became of it."""
        self.kill()
        return classify(self, oom_killed=oom_kills() > self.kills_before)

    def kill(self) -> None:
        """Kill the worker and all that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stdin:
            with contextlib.suppress(OSError):  # a command that nobody took
                self.process.stdin.close()


def parse_message(line: str) -> Message:
    """Return the message in a line.

    What is no message is an error; a last line that was cut off by death is empty.
    """
    try:
        message: Message = json.loads(line)
    except ValueError:
        if not line.endswith("\n"):
            return {}
        return {
            "error": {
                "type": "Protocol",
                "message": f"not a message: {line.strip()[:200]}",
                "oom": False,
            }
        }
    return message


def classify(worker: Worker, oom_killed: bool) -> Outcome:
    """Tell how a worker ended by what it said last, its exit code, and the kernel's counters."""
    if "result" in worker.final:
        return Outcome(answer=worker.final["result"])
    log = "\n".join(worker.log.read_text(errors="replace").splitlines()[-LOG_LINES:])
    if "error" in worker.final:
        return classify_error(worker.final["error"], worker.phase, log)
    if worker.expired_s is not None:
        return Outcome(
            "timeout", f"no end after {worker.expired_s:g} s, during {worker.phase}", log=log
        )
    code = worker.process.returncode
    ended_by = signal_name(-code) if code < 0 else f"exit code {code}"
    killed_by_kernel = oom_killed and code == -signal.SIGKILL
    if killed_by_kernel or limits.OUT_OF_MEMORY.search(log):
        return Outcome("oom", f"memory ran out during {worker.phase}, ended by {ended_by}", log=log)
    compiler = describe_compiler_error(log)
    return Outcome("crashed", f"ended by {ended_by} during {worker.phase}{compiler}", log=log)


def classify_error(error: Failure, phase: str, log: str) -> Outcome:
    """Tell how a worker ended by the error that it has reported."""
    message = error["message"]
    if error.get("no_device"):
        return Outcome("unsupported", message)
    if error.get("over_budget"):
        return Outcome("timeout", f"{message}, during {phase}")
    if error["oom"]:
        cause = error.get("blamed") or f"{error['type']}: {message}"
        return Outcome("oom", f"memory ran out during {phase}, {cause}", log=log)
    cause = error.get("blamed") or f"{error['type']} during {phase}: {message}"
    return Outcome("crashed", cause + describe_compiler_error(log, already_said=message), log=log)


def describe_compiler_error(log: str, already_said: str = "") -> str:
    """Quote the first error of a compiler or linker in a worker's log: why Jittor cannot build.

    Empty if there is none.
    """
    for line in log.splitlines():
        if COMPILER_ERROR.search(line):
            error = line.strip()
            return "" if error in already_said else f" (the compiler: {error[:300]})"
    return ""


def signal_name(number: int) -> str:
    """Return a signal's name. Most of the real-time signals have none."""
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def oom_kills() -> int:
    """Return how often the kernel has killed for want of memory, as far as it says: only whether
    this grows matters.
    """
    kills = 0
    for counter in OOM_COUNTERS:
        with contextlib.suppress(OSError):
            counts = dict(line.split() for line in counter.read_text().splitlines())
            kills += int(counts.get("oom_kill", 0))
    return kills
