"""What JAX counts while steps are made, for `worker.py`."""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.monitoring

from framebench.adapters.jax.adapter import JaxAdapter
from framebench.growth.leak_report import Program, StorageTracker, find_caller
from framebench.growth.meters import Meter


def make_allocator_meters(adapter: JaxAdapter) -> dict[str, Meter]:
    """Return the meters of the arrays alive."""
    return {"allocator.live": adapter.live_bytes}


def make_count_meters(adapter: JaxAdapter, programs: list[Program]) -> dict[str, Meter]:
    """Return the meters of what else can pile up, by name."""

    def count_arrays() -> int:
        return len(jax.live_arrays())

    def count_programs() -> int:
        return len(programs)

    return {"arrays": count_arrays, "compiled programs": count_programs}


def watch_compilations() -> list[Program]:
    """Return a list that grows by one program whenever JAX compiles."""
    programs: list[Program] = []

    def add_program(event: str, duration_secs: float, **details: Any) -> None:
        if event.endswith("/backend_compile_duration"):
            name = str(details.get("fun_name", ""))
            programs.append(Program(name, find_caller(sys._getframe(1))))

    jax.monitoring.register_event_duration_secs_listener(add_program)
    return programs


def make_tracker() -> StorageTracker:
    """Return a tracker that knows nothing: arrays of JAX are objects of Python."""
    return StorageTracker()


def make_script_meters() -> dict[str, Meter]:
    """Return the meters of a script's arrays."""

    def read_live() -> int:
        return sum(array.nbytes for array in jax.live_arrays())

    return {"allocator.live": read_live}


def watch_steps(end_step: Any, what: str) -> None:
    """Raise: in JAX a step is a call of a function, which is marked in the script."""
    raise NotImplementedError(f"nothing of JAX tells {what}")


def wait_for(result: Any) -> None:
    """Wait until the device has computed what a step returned."""
    jax.block_until_ready(result)


def describe_process() -> dict[str, Any]:
    """Return versions and device, as fields of `framebench.growth.record.Growth`."""
    return {"versions": {"jax": jax.__version__}, "device": jax.devices()[0].platform}
