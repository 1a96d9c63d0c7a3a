"""What a monitoring thread costs and sees: `python -m framebench.claims.probes.monitor CASE STEPS SEED`. Linux.

Steps with and without a thread that reads the process's resident memory every 10 ms are made in pairs, in random order: a
machine that drifts changes both alike. What the thread saw at the most is compared with the kernel's high-water mark of the
same step. One process is one block: its claim takes several.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import threading

from framebench import adapters
from framebench.adapters.base import Adapter
from framebench.instruments.host import status_bytes
from framebench.suite.selectors import parse
from framebench.worker.worker import timed_step

EVERY_S = 0.01
WARM_UP = 3


class Monitor:
    """Reads resident memory beside what runs inside the `with`."""

    def __init__(self) -> None:
        self.most = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def watch(self) -> None:
        while True:
            self.most = max(self.most, status_bytes("VmRSS"))
            if self.over.wait(EVERY_S):
                return

    def __enter__(self) -> Monitor:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()


def _reset_high_water() -> None:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def alone(adapter: Adapter) -> tuple[float, float]:
    _reset_high_water()
    return timed_step(adapter), 1.0


def _watched(adapter: Adapter) -> tuple[float, float]:
    """Seconds, and what the thread saw of the peak."""
    _reset_high_water()
    with Monitor() as monitor:
        seconds = timed_step(adapter)
    return seconds, monitor.most / status_bytes("VmHWM")


def _pairs(adapter: Adapter, steps: int, rng: random.Random) -> dict[str, float]:
    """Medians over the pairs: of the watched step's time over the other's, and of what was seen of the peak."""
    times, seen = [], []
    for _ in range(steps):
        order = rng.sample((alone, _watched), 2)
        readings = {make: make(adapter) for make in order}
        times.append(readings[_watched][0] / readings[alone][0])
        seen.append(readings[_watched][1])
    return {"watched_over_alone": statistics.median(times), "seen_over_peak": statistics.median(seen)}


if __name__ == "__main__":
    measured = adapters.load(parse(sys.argv[1]))
    measured.build()
    for _ in range(WARM_UP):
        timed_step(measured)
    print(json.dumps(_pairs(measured, int(sys.argv[2]), random.Random(sys.argv[3]))))
