"""What JAX counts while steps are made, for `growth/worker.py`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.monitoring

from framebench.adapters.jax.adapter import JaxAdapter
from framebench.growth.leak_report import Program, Storages, caller


def live(adapter: JaxAdapter) -> dict[str, Callable[[], int]]:
    return {"allocator.live": adapter.live_bytes}


def counters(adapter: JaxAdapter, programs: list[Program]) -> dict[str, Callable[[], int]]:
    """What else can pile up, by name."""
    return {"arrays": lambda: len(jax.live_arrays()), "compiled programs": lambda: len(programs)}


def watch_compilations() -> list[Program]:
    """Grows by one whenever JAX compiles."""
    programs: list[Program] = []

    def listen(event: str, duration_secs: float, **more: Any) -> None:
        if event.endswith("/backend_compile_duration"):
            programs.append((str(more.get("fun_name", "")), caller(sys._getframe(1))))

    jax.monitoring.register_event_duration_secs_listener(listen)
    return programs


def storages() -> Storages:
    return Storages()
