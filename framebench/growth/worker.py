"""Does memory grow from step to step, and what grows? `python -m framebench.growth.worker CASE STEPS [FILE]`. Linux.

FILE has a function `step(adapter)`, which is called in place of the case's own step. First each step is followed by readings of
every meter, with nothing else in the process; then some more steps are watched, which names what they leave behind. Prints one
JSON object; `records.growth.Growth` says what is in it.
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
from framebench.growth.leak_report import HALF, Program, leak_report
from framebench.growth.meters import Meter, Readings, bytes_meters
from framebench.suite.hypothetical import parse_any_batch
from framebench.suite.user_file import Fault, describe_fault, load_file
from framebench.worker.worker import own_stdout

WARM_UP = 20  # steps before the first reading: compilers, pools and caches settle


def _whole_step(adapter: Adapter) -> None:
    """After which everything that was asked for is done."""
    adapter.step()
    adapter.synchronize()


def _called(function: Callable[[Adapter], object], adapter: Adapter, file: str) -> None:
    """The file's step, which waits for what it likes. Raises Fault."""
    try:
        function(adapter)
    except (Exception, SystemExit) as error:
        raise Fault(describe_fault(error, file)) from error


def _own_step(file: str) -> Callable[[Adapter], object]:
    """The function `step` of a Python file. Raises Fault."""
    if not callable(step := getattr(load_file(file), "step", None)):
        raise Fault(f"{file} has no function `step(adapter)`, which is called in place of the case's step")
    return step


def read(step: Callable[[], None], meters: dict[str, Meter], steps: int) -> dict[str, list[int]]:
    """What each meter says after each step. Garbage in cycles is no growth, unless the strategy keeps the collector off."""
    readings = Readings(meters, steps)
    gc.freeze()  # what is there already is not looked through after every step
    for i in range(steps):
        step()
        readings.take(i)
    gc.unfreeze()
    return readings.lists()


def growth(case_id: str, steps: int, file: str | None) -> dict[str, Any]:
    """Raises Fault."""
    function = _own_step(file) if file else None
    case = parse_any_batch(case_id)
    adapter = adapters.load(case)
    framework = importlib.import_module(f"framebench.growth.{case.framework}_counters")
    programs: list[Program] = framework.watch_compilations()
    adapter.build()
    adapter.synchronize()
    step = partial(_called, function, adapter, file) if function and file else partial(_whole_step, adapter)
    for _ in range(WARM_UP):
        step()
    meters = bytes_meters(framework.live(adapter))
    counted = framework.counters(adapter, programs)
    readings = read(step, meters | counted, steps)
    answer: dict[str, Any] = {
        "case": case.id,
        "file": file,
        "warm_up": WARM_UP,
        "bytes": {name: readings[name] for name in meters},
        "counts": {name: readings[name] for name in counted},
        "watched": HALF,
        "kept": leak_report(framework.storages(), step, programs),
    }
    return answer | {"versions": adapter.versions(), "device": adapter.device()}


if __name__ == "__main__":
    out = own_stdout()
    try:
        answer = growth(sys.argv[1], int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
    except Fault as fault:
        answer = {"fault": str(fault)}
    print(json.dumps(answer), file=out)
    out.flush()
    os._exit(0)
