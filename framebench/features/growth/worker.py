"""Does memory grow from step to step, and what grows? `python -m framebench.features.growth.worker CASE STEPS [FILE]`. Linux.

FILE has a function `step(adapter)`, which is called in place of the case's own step. First each step is followed by readings of
every meter, with nothing else in the process; then some more steps are watched, which names what they leave behind. Prints one
JSON object; `records.growth.Growth` says what is in it.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from framebench import adapters
from framebench.adapters.base import Adapter
from framebench.features.growth.leak_report import HALF, caller, leavings
from framebench.instruments.host import status_bytes
from framebench.suite.hypothetical import named
from framebench.suite.user_file import Fault, blamed, loaded
from framebench.worker.worker import own_stdout

WARM_UP = 20  # steps before the first reading: compilers, pools and caches settle
Meter = Callable[[], int]


class Mallinfo(ctypes.Structure):
    """glibc's struct mallinfo2 (mallinfo(3))."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ["arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"]
    ]


def malloc_meter() -> Meter | None:
    """Bytes that malloc has given out and not taken back, in the whole process; None without glibc 2.33 or later."""
    if not hasattr(ctypes.CDLL(None), "mallinfo2"):
        return None
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = Mallinfo

    def read() -> int:
        found = ask()
        return int(found.uordblks + found.hblkhd)

    return read


def private() -> int:
    """Bytes of memory that is resident and no file's, once malloc has returned what it can: RssAnon of proc(5)."""
    ctypes.CDLL(None).malloc_trim(0)
    return status_bytes("RssAnon")


def bytes_meters(adapter: Adapter) -> dict[str, Meter]:
    """By instrument. Of PyTorch's tensors only a GPU's allocator keeps count; on the CPU they are malloc's."""
    found: dict[str, Meter | None] = {
        "allocator.live": adapter.live_bytes,
        "host.malloc": malloc_meter(),
        "host.private": private,
    }
    if adapter.case.framework == "torch":
        statistics: Callable[[], dict[str, int]] = adapter.statistics  # type: ignore[attr-defined]
        found["allocator.live"] = (lambda: statistics()["allocated_bytes.all.current"]) if statistics() else None
    return {name: meter for name, meter in found.items() if meter}


def counters(adapter: Adapter, programs: list[tuple[str, str]]) -> dict[str, Meter]:
    """What else can pile up, by name."""
    framework = importlib.import_module(adapter.case.framework)
    found: dict[str, Meter] = {}
    if adapter.case.framework == "jax":
        found |= {"arrays": lambda: len(framework.live_arrays()), "compiled programs": lambda: len(programs)}
    if adapter.case.framework == "jittor":
        found |= {"variables": framework.number_of_lived_vars, "operations": framework.number_of_lived_ops}
    if adapter.case.framework == "torch" and any(part.how in ("compile", "compile_step") for part in adapter.case.parts):
        counted = importlib.import_module("torch._dynamo.utils").counters
        found["compiled programs"] = lambda: int(counted["stats"]["unique_graphs"])
    return found


def watch_compilations(framework: str) -> list[tuple[str, str]]:
    """Grows by the function's name and where it was called from, whenever JAX compiles."""
    found: list[tuple[str, str]] = []

    def listen(event: str, seconds: float, **more: Any) -> None:
        if event.endswith("/backend_compile_duration"):
            found.append((str(more.get("fun_name", "")), caller(sys._getframe(1))))

    if framework == "jax":
        importlib.import_module("jax.monitoring").register_event_duration_secs_listener(listen)
    return found


def whole_step(adapter: Adapter) -> None:
    """After which everything that was asked for is done."""
    adapter.step()
    adapter.synchronize()


def called(function: Callable[[Adapter], object], adapter: Adapter, file: str) -> None:
    """The file's step, which waits for what it likes. Raises Fault."""
    try:
        function(adapter)
    except (Exception, SystemExit) as error:
        raise Fault(blamed(error, file)) from error


def own_step(file: str) -> Callable[[Adapter], object]:
    """The function `step` of a Python file. Raises Fault."""
    if not callable(step := getattr(loaded(file), "step", None)):
        raise Fault(f"{file} has no function `step(adapter)`, which is called in place of the case's step")
    return step


def read(step: Callable[[], None], meters: dict[str, Meter], steps: int) -> dict[str, list[int]]:
    """What each meter says after each step. Garbage in cycles is no growth, unless the strategy keeps the collector off."""
    found = {name: np.zeros(steps, np.int64) for name in meters}
    gc.freeze()  # what is there already is not looked through after every step
    for i in range(steps):
        step()
        if gc.isenabled():
            gc.collect()
        for name, meter in meters.items():
            found[name][i] = meter()
    gc.unfreeze()
    return {name: line.tolist() for name, line in found.items()}


def growth(case_id: str, steps: int, file: str | None) -> dict[str, Any]:
    """Raises Fault."""
    function = own_step(file) if file else None
    case = named(case_id)
    adapter = adapters.load(case)
    programs = watch_compilations(case.framework)
    adapter.build()
    adapter.synchronize()
    step = partial(called, function, adapter, file) if function and file else partial(whole_step, adapter)
    for _ in range(WARM_UP):
        step()
    meters, counted = bytes_meters(adapter), counters(adapter, programs)
    found = read(step, meters | counted, steps)
    answer: dict[str, Any] = {
        "case": case.id,
        "file": file,
        "warm_up": WARM_UP,
        "bytes": {name: found[name] for name in meters},
        "counts": {name: found[name] for name in counted},
        "watched": HALF,
        "kept": leavings(adapter, step, programs),
    }
    return answer | {"versions": adapter.versions(), "device": adapter.device()}


if __name__ == "__main__":
    out = own_stdout()
    try:
        said = growth(sys.argv[1], int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
    except Fault as fault:
        said = {"fault": str(fault)}
    print(json.dumps(said), file=out)
    out.flush()
    os._exit(0)
