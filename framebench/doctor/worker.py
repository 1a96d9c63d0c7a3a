"""Find out how wrong the instruments are in one framework's environment.

It is started as `python -m framebench.doctor.worker FRAMEWORK`. Steps of known size and known
length go through the same code as measured ones (`worker.measure_peaks`,
`stepping.make_timed_step`): a tensor of TENSOR_BYTES that the framework allocates and frees again,
and a wait for WAIT_SECONDS by another clock than the timer's.
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
from framebench.worker.stepping import make_timed_step
from framebench.worker.worker import measure_peaks, reserve_stdout

TENSOR_BYTES = 256 * 2**20
WAIT_SECONDS = 0.02
REPEATS = 5


def measure_memory(adapter: Adapter) -> dict[str, float]:
    """Return the errors of each instrument for a tensor of TENSOR_BYTES, relative to that size.

    `bias` is the median error, `spread` the largest minus the smallest. The adapter's step is
    replaced for good.
    """

    def allocate() -> None:
        tensor = adapter.allocate(TENSOR_BYTES)
        adapter.synchronize()
        del tensor

    adapter.one_step = allocate  # type: ignore[method-assign]
    errors: dict[str, list[float]] = {}
    for _ in range(REPEATS + 1):
        observed = measure_peaks(adapter)
        live = adapter.live_bytes()
        for name in ("host.rss", "allocator.in_use"):
            if name in observed:
                errors.setdefault(name, []).append((observed[name] - live) / TENSOR_BYTES - 1)
    figures = {}
    for name, all_errors in errors.items():
        repeated = all_errors[1:]  # the first allocation sets up the allocator
        figures[f"{name} bias"] = statistics.median(repeated)
        figures[f"{name} spread"] = max(repeated) - min(repeated)
    return figures


def measure_timer(adapter: Adapter) -> dict[str, float]:
    """Return the error of the timer, and the share of time that the processor worked for others.

    The error is that of the least disturbed measurement: an interruption can only add time. The
    adapter's step is replaced for good.
    """

    def wait() -> None:
        end = time.clock_gettime(time.CLOCK_MONOTONIC_RAW) + WAIT_SECONDS
        while time.clock_gettime(time.CLOCK_MONOTONIC_RAW) < end:
            pass

    adapter.one_step = wait  # type: ignore[method-assign]
    cpu_start, start = time.process_time(), time.perf_counter()
    seconds = [make_timed_step(adapter) for _ in range(10 * REPEATS)]
    lost = 1 - (time.process_time() - cpu_start) / (time.perf_counter() - start)
    return {
        "timer bias": min(seconds) / WAIT_SECONDS - 1,
        "processor lost to others": max(0.0, lost),
    }


def calibrate(framework: str) -> dict[str, float]:
    """Return by name the relative errors of the instruments in this process.

    The share of time that the processor was lost to other processes is among them.
    """
    adapter = adapters.load(Case("transformer", framework, "eval", "no_grad", 4, "tiny"))
    adapter.build()
    adapter.step()
    adapter.synchronize()
    figures = measure_memory(adapter) if HostPeak.is_available() else {}
    return figures | measure_timer(adapter)


if __name__ == "__main__":
    out = reserve_stdout()
    print(json.dumps(calibrate(sys.argv[1])), file=out)
    os._exit(0)
