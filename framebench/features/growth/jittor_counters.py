"""What Jittor counts while steps are made, for `growth/worker.py`."""

from __future__ import annotations

from collections.abc import Callable

import jittor as jt

from framebench.adapters.jittor.adapter import JittorAdapter
from framebench.features.growth.leak_report import Program, Storages


def live(adapter: JittorAdapter) -> dict[str, Callable[[], int]]:
    return {"allocator.live": adapter.live_bytes}


def counters(adapter: JittorAdapter, programs: list[Program]) -> dict[str, Callable[[], int]]:
    """What else can pile up, by name."""
    return {"variables": jt.number_of_lived_vars, "operations": jt.number_of_lived_ops}


def watch_compilations() -> list[Program]:
    """Kernels are compiled by operator, and not counted."""
    return []


def storages() -> Storages:
    return Storages()
