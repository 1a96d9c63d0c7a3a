"""What JAX counts while steps are made, for `worker.py`."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import jax
import jax.monitoring

from framebench.growth.leak_report import Source, StorageTracker, find_caller
from framebench.growth.meters import Meter

Tracker = StorageTracker  # one that knows nothing: arrays of JAX are objects of Python


def make_byte_meters() -> dict[str, Meter]:
    """Return the meters of the arrays alive."""

    def read_live() -> int:
        return sum(array.nbytes for array in jax.live_arrays())

    return {"allocator.live": read_live}


def make_count_meters(programs: list[Source]) -> dict[str, Meter]:
    """Return a meter of live arrays and one of compiled programs, by name: both can pile up."""

    def count_arrays() -> int:
        return len(jax.live_arrays())

    return {"arrays": count_arrays, "compiled programs": partial(len, programs)}


def watch_compilations() -> list[Source]:
    """Return a list that grows by one program whenever JAX compiles."""
    programs: list[Source] = []

    def add_program(event: str, duration_secs: float, **details: Any) -> None:
        if event.endswith("/backend_compile_duration"):
            name = str(details.get("fun_name", ""))
            line = find_caller(sys._getframe(1))
            programs.append(Source("compilation", name, line))

    jax.monitoring.register_event_duration_secs_listener(add_program)
    return programs


def wait_for(result: Any) -> None:
    """Wait until the device has computed what a step returned."""
    jax.block_until_ready(result)


def describe_process() -> dict[str, Any]:
    """Return versions and device, as fields of `framebench.growth.record.Growth`."""
    return {"versions": {"jax": jax.__version__}, "device": jax.devices()[0].platform}
