"""Show live progress of `asv run`: benchmark processes send events to it.

asv holds back what its children print until they end. So there is a named pipe next to their
standard streams.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from framebench.engine.children import start_thread
from framebench.engine.progress import format_duration
from framebench.engine.terminal import make_line

VARIABLE = "FRAMEBENCH_PROGRESS"
# the kinds of events with a result: a case has a record, or cannot be measured here
MEASURED, UNSUPPORTED = "end", "none"


class NoListenerError(Exception):
    """asv was killed: there is nobody left to measure for."""


def send(environment: str, case: str, event: str) -> None:
    """Send one event to the `asv run` that this process belongs to, if any.

    An event is the name of a phase, or MEASURED or UNSUPPORTED with a result: `end: <result>`.
    Raises NoListenerError.
    """
    path = os.environ.get(VARIABLE)
    if not path:
        return
    try:
        # non-blocking: without a reader this fails at once, where it would otherwise wait for ever
        pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        raise NoListenerError(f"nobody reads {path}: {error.strerror}") from error
    with os.fdopen(pipe, "w") as file:
        file.write(f"{environment}\t{case}\t{make_line(event)}\n")


class Progress:
    """Turn events into lines: progress and time left, a dot for each phase, and each result.

    `show` starts a line, and `add` continues it. `count_planned` returns the number of cases of the
    run. It is a function, since asv decides what to run after this object was made.
    """

    def __init__(
        self,
        count_planned: Callable[[], int],
        show: Callable[[str], None],
        add: Callable[[str], None],
    ) -> None:
        """Begin before the first event."""
        self.count_planned = count_planned
        self.show = show
        self.add = add
        self.shown: set[tuple[str, str]] = set()  # environment and case of each result
        self.done = 0  # planned cases that have ended
        self.is_line_open = False  # whether the last line is a block's, to which dots are added
        self.started: float | None = None

    def receive(self, line: str) -> None:
        """Show an event, `environment<TAB>case<TAB>kind: result`, which a benchmark has written."""
        environment, case, event = line.rstrip("\n").split("\t")
        if self.started is None:
            self.started = time.monotonic()
        kind, _, result = event.partition(": ")
        if kind in (MEASURED, UNSUPPORTED):
            self.show_result(environment, case, kind, result)
        elif self.is_line_open:
            self.add(".")
        else:
            self.is_line_open = True
            position = f"{self.done} of {self.count_planned()} cases{self.estimate_time_left()}"
            self.show(f"{position}: {case} and what it is compared with ")

    def show_result(self, environment: str, case: str, kind: str, result: str) -> None:
        """Show the outcome of a case, once."""
        if (environment, case) in self.shown:
            return
        self.shown.add((environment, case))
        if kind == MEASURED:
            self.done += 1
        self.is_line_open = False
        self.show(f"  {result}")

    def estimate_time_left(self) -> str:
        """Return how long the other cases will take at the mean pace so far, or "" if unknown."""
        if not self.done or self.started is None:
            return ""
        remaining = self.count_planned() - self.done
        seconds = remaining * (time.monotonic() - self.started) / self.done
        return f", about {format_duration(seconds)} left"


@contextmanager
def listen(progress: Progress) -> Iterator[None]:
    """Receive the events of every process that is started in this context."""
    with tempfile.TemporaryDirectory(prefix="framebench-asv-") as folder:
        path = Path(folder) / "progress"
        os.mkfifo(path)
        # open for writing too: otherwise reading would end whenever the last writer leaves
        pipe = os.fdopen(os.open(path, os.O_RDWR), "r", errors="replace")
        start_thread(lambda: relay(pipe, progress))
        os.environ[VARIABLE] = str(path)
        yield


def relay(pipe: TextIO, progress: Progress) -> None:
    """Pass every line of a pipe on."""
    for line in pipe:
        progress.receive(line)
