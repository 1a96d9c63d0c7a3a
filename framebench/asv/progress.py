"""Live progress of `asv run`: benchmark processes say what they do, and the asv process shows it at once.

asv holds back what its children print until they end, hence a named pipe beside their standard streams.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from framebench.engine.progress import duration

VARIABLE = "FRAMEBENCH_PROGRESS"


class _Unheard(Exception):
    """asv was killed: there is nobody left to measure for."""


def tell(environment: str, case: str, event: str) -> None:
    """Send one event to the `asv run` this belongs to, if any: a phase, `end: <what came of it>`, or `none: <why>` of
    what cannot be measured here. Raises _Unheard."""
    path = os.environ.get(VARIABLE)
    if not path:
        return
    try:
        # non-blocking: without a reader this fails at once, where it would otherwise wait for ever
        pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        raise _Unheard(f"nobody reads {path}: {error.strerror}") from error
    with os.fdopen(pipe, "w") as file:
        file.write(f"{environment}\t{case}\t{event}\n")


class Progress:
    """Turns events into lines: how far, how long still, and a dot for each phase of a block's processes; then a line for each
    of its cases with what came of it.

    `show` starts a line, `add` goes on with it. `planned` is asked late: asv decides what to run after this was made.
    """

    def __init__(self, planned: Callable[[], int], show: Callable[[str], None], add: Callable[[str], None]) -> None:
        self.planned, self.show, self.add = planned, show, add
        self.told: set[tuple[str, str]] = set()
        self.done = 0  # of those that are planned
        self.busy = False  # a block's line is open
        self.started: float | None = None

    def hear(self, line: str) -> None:
        environment, case, event = line.rstrip("\n").split("\t")
        name = (environment, case)
        self.started = self.started or time.monotonic()
        if event.startswith(("end", "none")):
            if name not in self.told:
                self.told.add(name)
                self.done += event.startswith("end")
                self.busy = False
                self.show(f"  {event.partition(': ')[2]}")
        elif self.busy:
            self.add(".")
        else:
            self.busy = True
            self.show(f"{self.done} of {self.planned()} cases{self.left()}: {case} and what it is compared with ")

    def left(self) -> str:
        """At the mean pace so far."""
        if not self.done or self.started is None:
            return ""
        cases = self.planned() - self.done
        return f", about {duration(cases * (time.monotonic() - self.started) / self.done)} left"


@contextmanager
def heard(progress: Progress) -> Iterator[None]:
    """Listen to `tell` of every process started inside."""
    with tempfile.TemporaryDirectory(prefix="framebench-asv-") as folder:
        path = Path(folder) / "progress"
        os.mkfifo(path)
        # open for writing too: otherwise reading would end whenever the last writer leaves
        pipe = os.fdopen(os.open(path, os.O_RDWR), "r", errors="replace")
        threading.Thread(target=_relay, args=(pipe, progress), daemon=True).start()
        os.environ[VARIABLE] = str(path)
        yield


def _relay(pipe: TextIO, progress: Progress) -> None:
    for line in pipe:
        progress.hear(line)
