"""Read memory after each step of a case:

`python -m framebench.growth.worker CASE STEPS [FILE]`. Linux.

FILE has a function `step(adapter)`, which is called in place of the case's own step. First each
step is followed by readings of every meter, with nothing else in the process; then some more steps
are watched, which names what they leave behind. It prints one JSON object, the fields of
`framebench.growth.record.Growth`, or `{"fault": why}`.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from framebench import adapters
from framebench.adapters.base import Adapter
from framebench.growth.leak_report import HALF, Program, report_leaks
from framebench.growth.meters import Meter, Readings, make_host_meters
from framebench.suite.hypothetical import parse_any_batch
from framebench.suite.user_file import Fault, describe_fault, load_file
from framebench.worker.worker import reserve_stdout

WARM_UP = 20  # steps before the first reading: compilers, pools and caches settle


def make_own_step(adapter: Adapter) -> None:
    """Make a step of the case, and wait until the device has done it."""
    adapter.step()
    adapter.synchronize()


def load_user_step(file: str) -> Callable[[Adapter], None]:
    """Return the function `step(adapter)` of the user's file.

    It must wait for its results itself. An exception in it becomes a Fault. Raises Fault if the
    file has no such function.
    """
    user_step = getattr(load_file(file), "step", None)
    if not callable(user_step):
        raise Fault(
            f"{file} has no function `step(adapter)`, which is called in place of the case's step"
        )

    def make_user_step(adapter: Adapter) -> None:
        try:
            user_step(adapter)
        except (Exception, SystemExit) as error:
            raise Fault(describe_fault(error, file)) from error

    return make_user_step


def read_steps(
    step: Callable[[], None], meters: dict[str, Meter], steps: int
) -> dict[str, list[int]]:
    """Make some steps, and return what each meter reads after each of them."""
    readings = Readings(meters, steps)
    gc.freeze()  # what is there already need not be looked through after every step
    for number in range(steps):
        step()
        readings.take(number)
    gc.unfreeze()
    return readings.as_lists()


def measure_growth(case_id: str, steps: int, file: str | None) -> dict[str, Any]:
    """Return the readings of a case, and what some more steps leave behind. Raises Fault."""
    make_step = load_user_step(file) if file else make_own_step
    case = parse_any_batch(case_id)
    adapter = adapters.load(case)
    framework = importlib.import_module(f"framebench.growth.{case.framework}_counters")
    programs: list[Program] = framework.watch_compilations()
    adapter.build()
    adapter.synchronize()
    step = partial(make_step, adapter)
    for _ in range(WARM_UP):
        step()
    byte_meters = framework.make_allocator_meters(adapter) | make_host_meters()
    count_meters = framework.make_count_meters(adapter, programs)
    readings = read_steps(step, byte_meters | count_meters, steps)
    return {
        "case": case.id,
        "file": file,
        "warm_up": WARM_UP,
        "bytes": {name: readings[name] for name in byte_meters},
        "counts": {name: readings[name] for name in count_meters},
        "watched": HALF,
        "kept": report_leaks(framework.make_tracker(), step, programs),
        "versions": adapter.versions(),
        "device": adapter.device(),
    }


if __name__ == "__main__":
    out = reserve_stdout()
    case_id, steps, *files = sys.argv[1:]
    try:
        answer = measure_growth(case_id, int(steps), files[0] if files else None)
    except Fault as fault:
        answer = {"fault": str(fault)}
    print(json.dumps(answer), file=out)
    out.flush()
    os._exit(0)
