"""Whether a timed step does its work when it is timed: not later, when its result is read, and not earlier, once for all.

What it computes is verified elsewhere (`verification.py`).
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from framebench.adapters.base import Adapter, lengths_of
from framebench.suite.trees import mapped
from framebench.worker.stepping import timed_step

TRIES = 3  # of a step whose result was late: another process may have had the core
REPEATED = 3  # steps after the verified ones
SHORTEST_S = 5e-3  # to read a result from a device, and to start a program that computes the loss of logits, takes less


def unfinished(adapter: Adapter) -> str:
    """Why a step is not done when its clock stops: to read its loss then takes longer than the step. Empty if it is done."""
    for _ in range(TRIES):
        step = timed_step(adapter)
        start = time.perf_counter()
        adapter.loss()
        late = time.perf_counter() - start
        if late < max(step, SHORTEST_S):
            return ""
    return f"the loss could be read {1e3 * late:.0f} ms after the clock of a step of {1e3 * step:.0f} ms had stopped"


def unrepeated(adapter: Adapter, losses: list[float], allowed: float) -> str:
    """Why the steps that follow, a second time, are not those that gave these losses at first. What happens in every so many
    steps happens now in others. Empty if they are."""
    for before in losses[:REPEATED]:
        timed_step(adapter)
        now = adapter.loss()
        if not abs(now - before) <= allowed * abs(before):
            return f"repeated, a step gave the loss {now} instead of {before}"
    return ""


def remembered(adapter: Adapter) -> str:
    """Why a step without an update cannot have computed its result: other inputs give the same loss. Empty if they do not."""
    before = adapter.loss()
    mine = vars(adapter).copy()
    _give_others(adapter)
    timed_step(adapter)
    same = adapter.loss() == before
    for name in ("inputs", "stream"):
        if name in mine:
            setattr(adapter, name, mine[name])
    return "other inputs gave the same loss" if same else ""


def _give_others(adapter: Adapter) -> None:
    """Each sample moved on by one place along its last axis, a token or a pixel; targets as they are."""
    case, workload, config = adapter.case, adapter.workload, adapter.config

    def moved(x: Any, y: Any) -> tuple[object, object]:
        return adapter.put(mapped(lambda array: np.ascontiguousarray(np.roll(array, 1, -1)) if array.ndim else array, x), y)

    if case.scenario == "varlen":
        adapter.stream = [moved(x, y) for x, y in workload.stream(config, case.batch, lengths_of(case))]
    else:
        adapter.inputs = moved(*workload.batch(config, case.batch))
