"""Does memory grow from step to step, and what grows? `python -m framebench.features.growth.worker CASE STEPS [FILE]`. Linux.

FILE has a function `step(adapter)`, which is called in place of the case's own step. First each step is followed by readings of
every meter, with nothing else in the process; then some more steps are watched, which names what they leave behind. Prints one
JSON object; `records.growth.Growth` says what is in it.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from framebench import adapters, extensions
from framebench.adapters.base import Adapter
from framebench.features.growth.leak_report import HALF, Program, leak_report
from framebench.instruments.host import status_bytes
from framebench.suite.hypothetical import named
from framebench.suite.user_file import Fault, blamed, loaded
from framebench.worker.worker import own_stdout

WARM_UP = 20  # steps before the first reading: compilers, pools and caches settle
Meter = Callable[[], int]


class _Mallinfo(ctypes.Structure):
    """glibc's struct mallinfo2 (mallinfo(3))."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ["arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"]
    ]


def _malloc_meter() -> Meter | None:
    """Bytes that malloc has given out and not taken back, in the whole process; None without glibc 2.33 or later."""
    if not hasattr(ctypes.CDLL(None), "mallinfo2"):
        return None
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = _Mallinfo

    def read() -> int:
        heap_usage = ask()
        return int(heap_usage.uordblks + heap_usage.hblkhd)

    return read


def private() -> int:
    """Bytes of memory that is resident and no file's, once malloc has returned what it can: RssAnon of proc(5)."""
    ctypes.CDLL(None).malloc_trim(0)
    return status_bytes("RssAnon")


def _bytes_meters(live: Meter | None) -> dict[str, Meter]:
    """By instrument; `live`: of the framework's allocator, if it keeps count."""
    meters: dict[str, Meter | None] = {
        "allocator.live": live,
        "host.malloc": _malloc_meter(),
        "host.private": private,
    }
    return {name: meter for name, meter in meters.items() if meter}


def _whole_step(adapter: Adapter) -> None:
    """After which everything that was asked for is done."""
    adapter.step()
    adapter.synchronize()


def _called(function: Callable[[Adapter], object], adapter: Adapter, file: str) -> None:
    """The file's step, which waits for what it likes. Raises Fault."""
    try:
        function(adapter)
    except (Exception, SystemExit) as error:
        raise Fault(blamed(error, file)) from error


def _own_step(file: str) -> Callable[[Adapter], object]:
    """The function `step` of a Python file. Raises Fault."""
    if not callable(step := getattr(loaded(file), "step", None)):
        raise Fault(f"{file} has no function `step(adapter)`, which is called in place of the case's step")
    return step


def read(step: Callable[[], None], meters: dict[str, Meter], steps: int) -> dict[str, list[int]]:
    """What each meter says after each step. Garbage in cycles is no growth, unless the strategy keeps the collector off."""
    readings = {name: np.zeros(steps, np.int64) for name in meters}
    gc.freeze()  # what is there already is not looked through after every step
    for i in range(steps):
        step()
        if gc.isenabled():
            gc.collect()
        for name, meter in meters.items():
            readings[name][i] = meter()
    gc.unfreeze()
    return {name: line.tolist() for name, line in readings.items()}


def growth(case_id: str, steps: int, file: str | None) -> dict[str, Any]:
    """Raises Fault."""
    function = _own_step(file) if file else None
    case = named(case_id)
    adapter = adapters.load(case)
    of_framework = extensions.of_framework("growth", "counters", case.framework)
    programs: list[Program] = of_framework.watch_compilations()
    adapter.build()
    adapter.synchronize()
    step = partial(_called, function, adapter, file) if function and file else partial(_whole_step, adapter)
    for _ in range(WARM_UP):
        step()
    meters, counted = _bytes_meters(of_framework.live(adapter)), of_framework.counters(adapter, programs)
    readings = read(step, meters | counted, steps)
    answer: dict[str, Any] = {
        "case": case.id,
        "file": file,
        "warm_up": WARM_UP,
        "bytes": {name: readings[name] for name in meters},
        "counts": {name: readings[name] for name in counted},
        "watched": HALF,
        "kept": leak_report(of_framework.storages(), step, programs),
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
