"""Start a worker process, listen to it until it ends, and say what became of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from framebench.engine.children import CHILDREN, LineReader, LogTail, TooLong
from framebench.engine.environments import (
    Environment,
    SetupError,
    find_damage,
    import_path,
)
from framebench.engine.shortages import check_disks
from framebench.instruments import limits
from framebench.records.record_base import Status
from framebench.suite.protocol import BatchReport, Command, Failure, Message

LOG_LINES = 25
LONGEST_REASON = 4000  # characters: exceptions of a user's model say whatever they like
GRACE_S = 10.0  # within which a worker that has reported its result must end
# of the control group, of the whole machine
OOM_COUNTERS = (Path("/sys/fs/cgroup/memory.events"), Path("/proc/vmstat"))
COMPILER_ERROR = re.compile(
    r"(?:fatal )?error: |cannot find -l|undefined reference|No such file or directory.*\.(?:h|so)"
)

OnPhase = Callable[[str], None]


@dataclass
class Outcome:
    """The end of a worker, and its answer."""

    status: Status = "ok"
    reason: str | None = None
    answer: Mapping[str, Any] = field(default_factory=dict)  # its result as JSON
    log: str = ""  # the end of its standard error, where it failed
    phase: str = ""  # the last one that the worker reported


class Worker:
    """One worker process: started, listened to, and always gone in the end.

    What it reports stays here when it dies. One that is `live` takes commands on its standard
    input.
    """

    def __init__(
        self,
        environment: Environment,
        module: str,
        orders: dict[str, object],
        variables: dict[str, str],
        live: bool = False,
    ) -> None:
        """Start the process and the threads that read its output. Raises OSError."""
        self.environment = environment
        self.phase = "start"
        self.final: Message = {}
        self.measured: Mapping[str, Any] = {}  # the result as far as the worker knew it
        self.reports: list[BatchReport] = []
        self.expired_s: float | None = None  # the limit at which it was killed
        self.is_gone = False
        self.kills_before = count_oom_kills()
        process_variables = {
            **os.environ,
            **variables,
            "PYTHONPATH": import_path(variables.get("PYTHONPATH")),
        }
        self.process = CHILDREN.start(
            [str(environment.python), "-P", "-m", module, json.dumps(orders)],
            process_variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.PIPE if live else subprocess.DEVNULL,
        )
        assert self.process.stderr
        try:
            self.log = LogTail(self.process.stderr)
            self.lines = LineReader(self.process)
        except OSError:  # without its threads nobody would listen to it
            CHILDREN.end(self.process)
            raise

    def send(self, command: Command) -> None:
        """Send a command. A dead worker does not get it, and `receive` then reports its death.

        Sending never blocks: a command is far shorter than what a pipe holds, and the next one
        follows the answer to this one.
        """
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(command).encode() + b"\n")
            self.process.stdin.flush()

    def receive(self, on_phase: OnPhase, limit_s: float) -> Message | None:
        """Return the next answer, result or error, or None if the worker will send no more.

        The worker has then ended or closed its pipe, or it was killed after `limit_s` seconds.
        """
        try:
            return self.read_message(on_phase, limit_s)
        except TimeoutError:
            self.expired_s = limit_s
            self.kill()
            return None

    def read_message(self, on_phase: OnPhase, limit_s: float) -> Message | None:
        """Return the worker's next answer, result or error, and note what it reports on the way.

        Raises TimeoutError.
        """
        deadline = time.monotonic() + limit_s
        while True:
            message = self.read_next(deadline - time.monotonic())
            if message is None:
                return None
            is_cut_off = not message  # the worker died while it wrote: the next line is None
            if is_cut_off or self.note_progress(message, on_phase):
                continue
            is_final = "result" in message or "error" in message
            # of several ranks the first error is the cause of the others
            if is_final and "error" not in self.final:
                self.final = message
            return message

    def read_next(self, limit_s: float) -> Message | None:
        """Return the message in the worker's next line, or None if it will write no more.

        A worker whose line has no end is killed, which is an error like any other. Raises
        TimeoutError.
        """
        try:
            line = self.lines.read(limit_s)
        except TooLong:
            self.kill()
            return make_protocol_error("a message without an end")
        return None if line is None else parse_message(line)

    def note_progress(self, message: Message, on_phase: OnPhase) -> bool:
        """Note a message on the way to an answer, and return whether it is one."""
        if "phase" in message:
            self.phase = message["phase"]
            on_phase(self.phase)
        elif "measured" in message:
            self.measured = message["measured"]
        elif "report" in message:
            self.reports.append(message["report"])
        else:
            return False
        return True

    def end(self, on_phase: OnPhase, limit_s: float) -> Outcome:
        """Listen until the worker has reported its result or has ended, and return its outcome.

        The worker is killed when an answer takes longer than `limit_s` seconds. Once it has
        reported its result it gets GRACE_S to end: what it has started may last longer, and is
        killed with it.
        """
        try:
            while not self.final and self.receive(on_phase, limit_s) is not None:
                pass
            with contextlib.suppress(TimeoutError, subprocess.TimeoutExpired):
                # one deadline for all: further messages give no more time
                deadline = time.monotonic() + min(GRACE_S, limit_s)
                while self.read_message(on_phase, deadline - time.monotonic()) is not None:
                    pass
                self.process.wait(max(0.0, deadline - time.monotonic()))
        finally:
            self.kill()
        return self.read_outcome()

    def read_outcome(self) -> Outcome:
        """Kill the worker if it is still alive, and say what became of it.

        Raises SetupError if it crashed in an environment that is damaged, and OSError if it crashed
        because a disk is full: both are no fault of its case.
        """
        self.kill()
        outcome = classify(self, oom_killed=count_oom_kills() > self.kills_before)
        outcome.phase = self.phase
        if outcome.reason is not None:  # a record limits its length
            outcome.reason = outcome.reason[:LONGEST_REASON]
        if outcome.status == "crashed":
            check_disks(f"{outcome.reason}\n{self.log.get_text()}", [self.environment.folder])
            damage = find_damage(self.environment)
            if damage:
                raise SetupError(damage)
        return outcome

    def kill(self) -> None:
        """Kill the worker and all that it has started."""
        if self.is_gone:
            return
        CHILDREN.end(self.process)
        self.is_gone = True
        self.log.close()
        self.lines.close()
        if self.process.stdin:
            with contextlib.suppress(OSError):  # a command that nobody took
                self.process.stdin.close()


def make_protocol_error(fault: str) -> Message:
    """Return the error of a worker that prints something other than messages."""
    return {"error": {"type": "Protocol", "message": fault, "oom": False}}


def parse_message(line: bytes) -> Message:
    """Return the message in a line.

    A line that has no key of a message, or another key, becomes an error. A last line that was cut
    off when the worker died becomes an empty message.
    """
    try:
        message: Message = json.loads(line)
    except (ValueError, RecursionError):
        message = {}
        if not line.endswith(b"\n"):
            return message
    has_keys = isinstance(message, dict) and bool(message)
    if not has_keys or not message.keys() <= Message.__annotations__.keys():
        printed = line.decode(errors="replace").strip()[:200]
        return make_protocol_error(f"not a message: {printed}")
    return message


def classify(worker: Worker, oom_killed: bool) -> Outcome:
    """Return how a worker ended: by its last message, or else by its log and exit code.

    `oom_killed` says whether the kernel killed a process for memory while this one ran.
    """
    if "result" in worker.final:
        return Outcome(answer=worker.final["result"])
    log = worker.log.get_text(LOG_LINES)
    if "error" in worker.final:
        return classify_error(worker.final["error"], worker.phase, log)
    if worker.expired_s is not None:
        return Outcome(
            "timeout", f"did not end within {worker.expired_s:g} s, during {worker.phase}", log=log
        )
    code = worker.process.returncode
    ended_by = describe_exit(code)
    killed_by_kernel = oom_killed and code == -signal.SIGKILL
    if killed_by_kernel or limits.is_about_memory(log):
        return Outcome("oom", f"memory ran out during {worker.phase}, ended by {ended_by}", log=log)
    compiler = describe_compiler_error(log)
    return Outcome("crashed", f"ended by {ended_by} during {worker.phase}{compiler}", log=log)


def classify_error(error: Failure, phase: str, log: str) -> Outcome:
    """Return how a worker ended by the error that it has reported."""
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
    """Return the first error of a compiler or linker in a worker's log: why Jittor cannot build.

    Returns an empty string if the log has no such error, or if `already_said` contains it.
    """
    for line in log.splitlines():
        if COMPILER_ERROR.search(line):
            error = line.strip()
            if error in already_said:
                return ""
            return f" (the compiler: {error[:300]})"
    return ""


def describe_exit(code: int) -> str:
    """Return an exit code in words, such as `exit code 3`; a negative one is that of a signal.

    A signal is given by its name, such as `SIGKILL`, or as `signal 35` if it has none.
    """
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def count_oom_kills() -> int:
    """Return a number that grows when the kernel kills a process because memory ran out.

    A kill may be counted by several of the counters.
    """
    kills = 0
    for counter in OOM_COUNTERS:
        with contextlib.suppress(OSError):
            counts = dict(line.split() for line in counter.read_text().splitlines())
            kills += int(counts.get("oom_kill", 0))
    return kills
