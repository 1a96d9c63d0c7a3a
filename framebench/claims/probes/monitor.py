"""What a monitoring thread costs, and how much of a peak it sees. Linux.

`python -m framebench.claims.probes.monitor CASE STEPS SEED`. Steps with and without a thread that
reads the process's resident memory every 10 ms are made in pairs, in random order: a machine that
drifts changes both alike. The most that the thread saw is compared with the kernel's high-water
mark of the same step. One process is one block: its claim takes several.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import threading
from pathlib import Path

from framebench import adapters
from framebench.adapters.base import Adapter
from framebench.instruments.host import read_status
from framebench.suite.selectors import parse
from framebench.worker.stepping import make_timed_step

INTERVAL_S = 0.01
WARM_UP = 3


class Monitor:
    """A thread that reads resident memory while a `with` block runs."""

    def __init__(self) -> None:
        self.highest = 0
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def watch(self) -> None:
        """Read until the block ends, and once more then."""
        while True:
            self.highest = max(self.highest, read_status("VmRSS"))
            if self.stopped.wait(INTERVAL_S):
                return

    def __enter__(self) -> Monitor:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self.thread.join()


def compare_steps(adapter: Adapter, steps: int, rng: random.Random) -> dict[str, float]:
    """Return medians over pairs: relative time, and what the thread saw of the peak."""
    times, shares = [], []
    for _ in range(steps):
        seconds: dict[bool, float] = {}
        for is_watched in rng.sample((False, True), 2):
            Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
            if not is_watched:
                seconds[is_watched] = make_timed_step(adapter)
                continue
            with Monitor() as monitor:
                seconds[is_watched] = make_timed_step(adapter)
            shares.append(monitor.highest / read_status("VmHWM"))
        times.append(seconds[True] / seconds[False])
    return {
        "watched_over_alone": statistics.median(times),
        "seen_over_peak": statistics.median(shares),
    }


def main() -> None:
    """Build the case, and print the medians."""
    adapter = adapters.load(parse(sys.argv[1]))
    adapter.build()
    for _ in range(WARM_UP):
        make_timed_step(adapter)
    print(json.dumps(compare_steps(adapter, int(sys.argv[2]), random.Random(sys.argv[3]))))


if __name__ == "__main__":
    main()
