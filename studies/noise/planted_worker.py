"""Run a module of framebench in a framework's environment, with a known difference planted.

`python planted_worker.py SPIN EXTRA -P -m framebench.worker.worker TASK`: SPIN is the share of its
own time by which each timed step is made longer, EXTRA the share of its peak by which a step holds
more. `planting.py` writes the script that starts it.
"""

from __future__ import annotations

import runpy
import sys
import time

from framebench.adapters.base import Adapter
from framebench.suite.protocol import Task
from framebench.worker import stepping, worker


def lengthen_steps(share: float) -> None:
    """Make each timed step longer by this share of its own time, in a busy loop."""
    make_plain_step = stepping.make_timed_step

    def make_longer_step(adapter: Adapter) -> float:
        start = time.perf_counter()
        seconds = make_plain_step(adapter)
        end = time.perf_counter()
        while time.perf_counter() < end + share * (end - start):
            pass  # busy, as the step itself would be
        return seconds

    # only the turns of a block look it up here: warm-up steps stay as they are
    stepping.make_timed_step = make_longer_step


def enlarge_steps(share: float) -> None:
    """Make each step whose peak is read allocate this share of its peak in addition."""
    measure_plainly = worker.measure_steady_peaks

    def measure_larger(adapter: Adapter, task: Task) -> list[dict[str, int]]:
        plain = worker.measure_peaks(adapter)
        instrument = "allocator.in_use" if "allocator.in_use" in plain else "host.rss"
        size = round(share * plain[instrument])
        adapter.allocate(size)  # once before, since the first allocation may be compiled
        make_plain_step = adapter.one_step

        def make_larger_step() -> None:
            extra_memory = adapter.allocate(size)
            make_plain_step()
            adapter.synchronize()
            del extra_memory

        adapter.one_step = make_larger_step  # type: ignore[method-assign]
        return measure_plainly(adapter, task)

    worker.measure_steady_peaks = measure_larger


def main(spin: str, extra: str, *command: str) -> None:
    """Run the module that the command of an interpreter names: `-P -m MODULE ARGUMENTS`."""
    module, *arguments = command[command.index("-m") + 1 :]
    sys.argv = [module, *arguments]
    if module != worker.__name__:  # such as the check in float64, in which nothing is planted
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return
    if float(spin):
        lengthen_steps(float(spin))
    if float(extra):
        enlarge_steps(float(extra))
    worker.serve(worker.run_orders)


if __name__ == "__main__":
    main(*sys.argv[1:])
