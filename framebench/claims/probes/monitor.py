"""How much of a run's peak is found by reading memory now and then. Linux.

`python -m framebench.claims.probes.monitor CASE STEPS SEED`. The same steps are made several times,
each time with another way of reading the process's resident memory: by a thread every second, as
article C prints it; by a thread every 10 ms; and, as controls, once before each step or once after
it. Seconds are those in which the process computes, so that on a machine that is busy with others
no more is read of a step. The most that was read is divided by the kernel's high-water mark of the
same steps. The ways come in random order, so that a machine that drifts favours none.

Run it with `MALLOC_ENV`: otherwise freed pages stay resident, and even a reading before the step
finds nearly all of the peak.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from pathlib import Path
from types import TracebackType

from framebench import adapters
from framebench.adapters.base import Adapter
from framebench.instruments.host import read_status
from framebench.suite.selectors import parse
from framebench.worker.stepping import make_timed_step

POLL_S = 0.001  # between two looks at the process's clock
# seconds between two readings of a thread, by the name of its numbers
THREADS = {"every_second": 1.0, "every_10_ms": 0.01}
BEFORE, AFTER = "before_each_step", "after_each_step"
WAYS = (*THREADS, BEFORE, AFTER)
WARM_UP = 3  # steps, after which the allocator has what it keeps


class Monitor:
    """Reads resident memory, by a thread while a `with` block runs if `interval_s` is not 0."""

    def __init__(self, interval_s: float = 0.0) -> None:
        self.highest_bytes = 0
        self.readings = 0
        self.interval_s = interval_s
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def read(self) -> None:
        """Take one reading."""
        self.highest_bytes = max(self.highest_bytes, read_status("VmRSS"))
        self.readings += 1

    def watch(self) -> None:
        """Read until the block ends."""
        while not self.stopped.is_set():
            self.read()
            due = time.process_time() + self.interval_s
            while time.process_time() < due and not self.stopped.wait(POLL_S):
                pass

    def __enter__(self) -> Monitor:
        if self.interval_s:
            self.thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stopped.set()
        if self.interval_s:
            self.thread.join()


def reset_peak() -> None:
    """Set the kernel's high-water mark back to the present resident memory (proc(5))."""
    Path("/proc/self/clear_refs").write_text("5")


def read_peak_share(adapter: Adapter, way: str, steps: int) -> dict[str, float]:
    """Return the share of the steps' peak that one way of reading finds, and its readings."""
    reset_peak()
    with Monitor(THREADS.get(way, 0.0)) as monitor:
        for _ in range(steps):
            if way == BEFORE:
                monitor.read()
            make_timed_step(adapter)
            if way == AFTER:
                monitor.read()
    return {
        way: monitor.highest_bytes / read_status("VmHWM"),
        f"{way}_readings": monitor.readings,
    }


def main() -> None:
    """Build the case, and print the numbers of each way."""
    case_id, steps, seed = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    adapter = adapters.load(parse(case_id))
    adapter.build()
    for _ in range(WARM_UP):
        make_timed_step(adapter)
    numbers: dict[str, float] = {}
    for way in random.Random(seed).sample(WAYS, len(WAYS)):
        numbers |= read_peak_share(adapter, way, steps)
    print(json.dumps(numbers))


if __name__ == "__main__":
    main()
