"""What a monitoring thread costs and sees: `python -m framebench.worker.monitor_probe CASE STEPS`. Linux.

Steps with and without a thread that reads the process's resident memory every 10 ms alternate in one process. What the thread
saw at the most is compared with the kernel's high-water mark of the same step.
"""

from __future__ import annotations

import json
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


def reset_high_water() -> None:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def alternate(adapter: Adapter, steps: int) -> dict[str, list[float]]:
    """Seconds of the steps alone and watched, and bytes of the watched ones."""
    found: dict[str, list[float]] = {"alone_s": [], "watched_s": [], "seen_bytes": [], "peak_bytes": []}
    for _ in range(steps):
        reset_high_water()
        found["alone_s"].append(timed_step(adapter))
        reset_high_water()
        with Monitor() as monitor:
            found["watched_s"].append(timed_step(adapter))
        found["seen_bytes"].append(monitor.most)
        found["peak_bytes"].append(status_bytes("VmHWM"))
    return found


if __name__ == "__main__":
    measured = adapters.load(parse(sys.argv[1]))
    measured.build()
    for _ in range(WARM_UP):
        timed_step(measured)
    print(json.dumps(alternate(measured, int(sys.argv[2]))))
