"""What a loop grows to while Python's collector is on, off or called: `python -m framebench.claims.probes.collector
CASE STEPS`. Linux.

A memory worker collects before each step that it measures, so that its peaks cannot tell; here nobody collects but the case.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from framebench import adapters
from framebench.instruments.host import status_bytes
from framebench.suite.selectors import parse
from framebench.worker.stepping import timed_step


def _grown(case_id: str, steps: int) -> dict[str, float]:
    """Bytes that the process grew by at the most, from the framework's import on, in so many steps after the first; and how
    often the collector ran in them."""
    adapter = adapters.load(parse(case_id))
    before = status_bytes("VmRSS")
    adapter.build()
    timed_step(adapter)
    collected = adapter.collections.total()
    Path("/proc/self/clear_refs").write_text("5")
    for _ in range(steps):
        timed_step(adapter)
    return {"bytes": status_bytes("VmHWM") - before, "collections": adapter.collections.total() - collected}


if __name__ == "__main__":
    print(json.dumps(_grown(sys.argv[1], int(sys.argv[2]))))
