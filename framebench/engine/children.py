"""Start child processes; limit what they print and how long they run, and kill all they started.

A user's model may print without end, and may start processes that outlive it. Those keep the pipes
to this process open, and may have left the process group. So neither the end of a pipe nor that of
a group shows that all have ended.
"""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, NamedTuple

import psutil

from framebench.instruments.parent_death import adopt_orphans, die_with_parent

LOG_BYTES = 2**16  # the end of a child's standard error, which is kept
ANSWER_BYTES = 2**26  # the end of a program's output, of which the last line is its answer
MOST_LINE_BYTES = 2**26  # of a message: results with a summary of each tensor have some 2**20
POLL_S = 0.1  # between two checks whether a silent child is still alive
ERRORS_EVERY_S = 1.0  # between two calls of `on_errors`
LISTEN_S = 1.0  # how long a pipe is read on once its writer is dead
MOST_ROUNDS = 20  # of killing, which is repeated since a process may start others meanwhile
MARK = "FRAMEBENCH_CHILD"  # environment variable that all processes of a child inherit


def start_thread(work: Callable[[], None]) -> threading.Thread:
    """Start a thread. Raises OSError if no more can be started, as under a limit on memory."""
    thread = threading.Thread(target=work, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        reason = "no further thread can be started, by a limit on memory or processes (ulimit)"
        raise OSError(errno.EAGAIN, reason) from error
    return thread


class TooLong(Exception):
    """A line is longer than may be read."""


class LogTail:
    """The end of a child's output, which a thread reads as it comes.

    Only the end is kept, and in memory, so that a child that prints without end fills neither
    memory nor disk.
    """

    def __init__(self, pipe: IO[bytes], most_bytes: int = LOG_BYTES) -> None:
        """Start the thread, which keeps the last `most_bytes` bytes of the pipe."""
        self.pipe = pipe
        self.most_bytes = most_bytes
        self.last_bytes = bytearray()
        self.lock = threading.Lock()
        self.thread = start_thread(self.read)

    def read(self) -> None:
        """Read until all writers have closed the pipe."""
        while True:
            piece = os.read(self.pipe.fileno(), 2**16)
            if not piece:
                return
            with self.lock:
                self.last_bytes += piece
                del self.last_bytes[: -self.most_bytes]

    def close(self) -> None:
        """Read the rest in the pipe, and close it, unless a process that escaped keeps it open."""
        self.thread.join(LISTEN_S)
        if not self.thread.is_alive():
            self.pipe.close()

    def get_text(self, lines: int | None = None) -> str:
        """Return the last `lines` lines, or all that is in memory."""
        with self.lock:
            printed = self.last_bytes.decode(errors="replace")
        if lines is None:
            return printed
        return "\n".join(printed.splitlines()[-lines:])


class LineReader:
    """The lines of a child's standard output, each with a time limit.

    A thread reads one line ahead, so that the full pipe stops a child that prints without end.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        """Start the thread that reads the lines of a process."""
        assert process.stdout
        self.process = process
        self.pipe = process.stdout
        self.lines: queue.Queue[bytes] = queue.Queue(1)
        self.thread = start_thread(self.read_all)

    def read_all(self) -> None:
        """Put every line into the queue, and an empty one once all writers have closed the pipe."""
        line = b"more"
        while line:
            line = self.pipe.readline(MOST_LINE_BYTES)
            self.lines.put(line)

    def read(self, limit_s: float) -> bytes | None:
        """Return the next line, or None if the child will print no more.

        It prints no more once the pipe is closed or the child has ended. Processes that it started
        may still write into the pipe, but their lines do not count. The last line may lack its
        newline. Raises TimeoutError, and TooLong.
        """
        deadline = time.monotonic() + limit_s
        while True:
            was_alive = self.process.poll() is None
            wait_s = min(POLL_S, max(0.0, deadline - time.monotonic())) if was_alive else LISTEN_S
            with contextlib.suppress(queue.Empty):
                line = self.lines.get(timeout=wait_s)
                break
            if not was_alive:
                return None
            if time.monotonic() >= deadline:
                raise TimeoutError
        if not line:
            self.lines.put(line)  # for the next call
            return None
        if len(line) >= MOST_LINE_BYTES:
            raise TooLong
        return line

    def close(self) -> None:
        """Read the rest in the pipe, and close it, unless a process that escaped keeps it open."""
        with contextlib.suppress(queue.Empty):
            while self.lines.get(timeout=LISTEN_S):
                pass
        self.thread.join(LISTEN_S)
        if not self.thread.is_alive():
            self.pipe.close()
            self.lines.put(b"")


class Children:
    """The running children of this process, each the leader of a session of its own.

    When a child ends, all processes that it has started are killed, also daemons and those in other
    groups.
    """

    def __init__(self) -> None:
        """Begin without children."""
        self.lock = threading.Lock()  # planners are started by several threads
        self.marks: dict[int, str] = {}  # by process id
        self.earlier_children: set[int] = set()  # ids of children that this process had before

    def start(
        self,
        command: Sequence[str],
        variables: Mapping[str, str],
        purpose: str = "",
        **streams: Any,
    ) -> subprocess.Popen[bytes]:
        """Start a program with these variables, and a mark by which its descendants are found.

        The mark begins with the `purpose`. The program is killed when this process ends in any way.
        Raises OSError.
        """
        mark = purpose + secrets.token_hex(8)
        with self.lock:
            if not self.marks:
                adopt_orphans()
                self.earlier_children = {child.pid for child in psutil.Process().children()}
            process = subprocess.Popen(
                command,
                env={**variables, MARK: mark},
                start_new_session=True,
                preexec_fn=die_with_parent,
                **streams,
            )
            self.marks[process.pid] = mark
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a program, if it is still alive, and all that it has started.

        If Ctrl-C interrupts that, the next call repeats it. After that a call does nothing: the id
        may be that of another process by then.
        """
        mark = self.marks.get(process.pid)
        if mark is None:
            return
        kill_group(process.pid)
        process.wait()
        with self.lock:
            kill_marked(mark)
            del self.marks[process.pid]
            # while other children run, an orphan may be of one of them
            if not self.marks:
                kill_all(self.list_orphans)

    def list_orphans(self) -> list[psutil.Process]:
        """Return the processes that became children of this one when their parents ended.

        These processes are in another session, and were no children before the first program was
        started.
        """
        session = os.getsid(0)
        orphans = []
        for child in psutil.Process().children():
            with contextlib.suppress(ProcessLookupError):
                if child.pid not in self.earlier_children and os.getsid(child.pid) != session:
                    orphans.append(child)
        return orphans

    def kill(self) -> None:
        """Kill all children, so that threads which wait for them end with this process."""
        for pid in list(self.marks):
            kill_group(pid)


CHILDREN = Children()


class ProgramEnd(NamedTuple):
    """The exit of a program, and the end of its output."""

    code: int
    stdout: str
    stderr: str


def run_program(
    command: Sequence[str],
    variables: Mapping[str, str],
    limit_s: float,
    on_errors: Callable[[str], None] | None = None,
) -> ProgramEnd:
    """Run a program with only these variables, and return its exit code and output.

    Processes that it leaves behind are killed at once. `on_errors` is called every second with the
    end of its standard error. Raises TimeoutError after `limit_s` seconds, and OSError if it cannot
    be started.
    """
    process = CHILDREN.start(
        command,
        variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )
    assert process.stdout
    assert process.stderr
    logs = []
    try:
        printed = LogTail(process.stdout, ANSWER_BYTES)
        logs.append(printed)
        errors = LogTail(process.stderr)
        logs.append(errors)
        wait_for_program(process, limit_s, errors, on_errors)
    finally:
        CHILDREN.end(process)
        for log in logs:
            log.close()
    return ProgramEnd(process.returncode, printed.get_text(), errors.get_text())


def wait_for_program(
    process: subprocess.Popen[bytes],
    limit_s: float,
    errors: LogTail,
    on_errors: Callable[[str], None] | None,
) -> None:
    """Wait until a program has ended. Raises TimeoutError after so many seconds."""
    deadline = time.monotonic() + limit_s
    while True:
        remaining_s = deadline - time.monotonic()
        try:
            process.wait(remaining_s if on_errors is None else min(remaining_s, ERRORS_EVERY_S))
            return
        except subprocess.TimeoutExpired:
            if on_errors is None or remaining_s <= ERRORS_EVERY_S:
                raise TimeoutError from None
            on_errors(errors.get_text())


def kill_group(leader: int) -> None:
    """Kill all processes of a group that are left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def kill_marked(mark: str) -> None:
    """Kill every process whose inherited mark begins with `mark`, in any process group."""

    def list_marked() -> list[psutil.Process]:
        return [process for process in psutil.process_iter() if read_mark(process).startswith(mark)]

    kill_all(list_marked)


def kill_all(list_processes: Callable[[], list[psutil.Process]]) -> None:
    """Kill the listed processes, and those that they started meanwhile, in at most MOST_ROUNDS."""
    for _ in range(MOST_ROUNDS):
        processes = list_processes()
        if not processes:
            return
        for process in processes:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(processes, timeout=LISTEN_S)


def read_mark(process: psutil.Process) -> str:
    """Return a process's environment variable MARK, which names the child that it descends from.

    The mark is empty if the variable is not set, or if the process is dead or another user's.
    """
    try:
        return process.environ().get(MARK, "")
    except (psutil.Error, OSError):
        return ""
