"""How wrong the instruments are in one framework's environment: `python -m framebench.doctor.worker FRAMEWORK`.

Steps of known size and known length go through the same code as measured ones (`worker.peaks`, `worker.timed_step`): a tensor
of KNOWN_BYTES that the framework allocates and drops again, and a wait for KNOWN_SECONDS by another clock than the timer's.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time

from framebench import adapters
from framebench.adapters.base import Adapter
from framebench.instruments.host import HostPeak
from framebench.suite.case import Case
from framebench.worker.worker import own_stdout, peaks, timed_step

KNOWN_BYTES = 256 * 2**20
KNOWN_SECONDS = 0.02
REPEATS = 5


def memory(adapter: Adapter) -> dict[str, float]:
    """By instrument, relative to the known size: `bias` (median error) and `spread` (largest minus smallest)."""

    def allocate() -> None:
        held = adapter.allocate(KNOWN_BYTES)
        adapter.synchronize()
        del held

    adapter.one_step = allocate  # type: ignore[method-assign]
    repeated_errors: list[dict[str, float]] = []
    for _ in range(REPEATS + 1):
        seen = peaks(adapter)
        live = adapter.live_bytes()
        shown = {name: seen[name] for name in ("host.rss", "allocator.in_use") if name in seen}
        repeated_errors.append({name: (value - live) / KNOWN_BYTES - 1 for name, value in shown.items()})
    figures: dict[str, float] = {}
    for name in repeated_errors[0]:
        errors = [f[name] for f in repeated_errors[1:]]  # the first allocation sets up the allocator
        figures |= {f"{name} bias": statistics.median(errors), f"{name} spread": max(errors) - min(errors)}
    return figures


def timer(adapter: Adapter) -> dict[str, float]:
    """Error of the least disturbed measurement of the known length, and the share of all of them that the processor was not
    ours: being interrupted only ever adds."""

    def wait() -> None:
        end = time.clock_gettime(time.CLOCK_MONOTONIC_RAW) + KNOWN_SECONDS
        while time.clock_gettime(time.CLOCK_MONOTONIC_RAW) < end:
            pass

    adapter.one_step = wait  # type: ignore[method-assign]
    cpu, start = time.process_time(), time.perf_counter()
    seconds = [timed_step(adapter) for _ in range(10 * REPEATS)]
    disturbed = 1 - (time.process_time() - cpu) / (time.perf_counter() - start)
    return {"timer bias": min(seconds) / KNOWN_SECONDS - 1, "processor lost to others": max(0.0, disturbed)}


def _calibrate(framework: str) -> dict[str, float]:
    adapter = adapters.load(Case("transformer", framework, "eval", "no_grad", 4, "tiny"))
    adapter.build()
    adapter.step()
    adapter.synchronize()
    return (memory(adapter) if HostPeak.available() else {}) | timer(adapter)


if __name__ == "__main__":
    out = own_stdout()
    print(json.dumps(_calibrate(sys.argv[1])), file=out)
    os._exit(0)
