"""What a loop grows to while Python's collector is on, off or called. Linux.

`python -m framebench.claims.probes.collector CASE STEPS`. A memory worker collects before each step
that it measures, so that its peaks cannot tell; here nobody collects but the case.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from framebench import adapters
from framebench.instruments.host import read_status
from framebench.suite.selectors import parse
from framebench.worker.stepping import make_timed_step


def measure_growth(case_id: str, steps: int) -> dict[str, float]:
    """Return how much the process grew over so many steps, and how often the collector ran.

    The growth is in bytes, without the framework's import.
    """
    adapter = adapters.load(parse(case_id))
    before = read_status("VmRSS")
    adapter.build()
    make_timed_step(adapter)
    collected = adapter.collections.total()
    Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    for _ in range(steps):
        make_timed_step(adapter)
    return {
        "bytes": read_status("VmHWM") - before,
        "collections": adapter.collections.total() - collected,
    }


if __name__ == "__main__":
    print(json.dumps(measure_growth(sys.argv[1], int(sys.argv[2]))))
