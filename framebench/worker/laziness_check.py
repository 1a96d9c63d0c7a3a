"""Check that a timed step does its work when it is timed: not later, when its result is read, and
not earlier, once for all.

What it computes is verified elsewhere (`verification.py`).
"""

from __future__ import annotations

import time

import numpy as np

from framebench.adapters.base import Adapter, Batch, find_length_strategy
from framebench.models.spec import USER_MODEL
from framebench.suite.trees import map_tree
from framebench.worker.stepping import timed_step

TRIES = 3  # of a step whose result was late: another process may have had the core
REPEATED = 3  # steps after the verified ones
SHORTEST_S = 5e-3  # to read a result from a device takes less


def describe_late_result(adapter: Adapter) -> str:
    """Say why a step is not done when its clock stops: reading its result takes longer than the
    step. Empty if it is done.

    In evaluation of a user's model the result is the logits: the user's loss is computed only when
    somebody asks for it, and may take longer than the step.
    """
    of_logits = adapter.case.workload == USER_MODEL and adapter.case.stage.observes == "logits"
    read = adapter.logits if of_logits else adapter.loss
    for _ in range(TRIES):
        step_s = timed_step(adapter)
        start = time.perf_counter()
        read()
        read_s = time.perf_counter() - start
        if read_s < max(step_s, SHORTEST_S):
            return ""
    return (
        f"the result could be read {1e3 * read_s:.0f} ms after the clock of a step of "
        f"{1e3 * step_s:.0f} ms had stopped"
    )


def describe_other_losses(adapter: Adapter, losses: list[float], allowed: float) -> str:
    """Say why the next steps do not give these losses, as they did the first time.

    Empty if they do.

    What a step does once in so many steps it does now in other ones.
    """
    for first in losses[:REPEATED]:
        timed_step(adapter)
        second = adapter.loss()
        if not abs(second - first) <= allowed * abs(first):  # NaN differs
            return f"repeated, a step gave the loss {second} instead of {first}"
    return ""


def describe_ignored_inputs(adapter: Adapter) -> str:
    """Say why a step without an update cannot have computed its result: other inputs give the same
    loss. Empty if not.
    """
    loss = adapter.loss()
    before = {name: value for name, value in vars(adapter).items() if name in ("inputs", "stream")}
    give_other_inputs(adapter)
    timed_step(adapter)
    is_same = adapter.loss() == loss
    for name, value in before.items():
        setattr(adapter, name, value)
    return "other inputs gave the same loss" if is_same else ""


def give_other_inputs(adapter: Adapter) -> None:
    """Move each sample on by one place along its last axis with several places, and leave the
    targets as they are.

    That is a token or a pixel. Of samples of a single number the batch is turned round.
    """
    case = adapter.case

    def moved(array: np.ndarray) -> np.ndarray:
        axes = [axis for axis, length in enumerate(array.shape) if length > 1]
        return np.ascontiguousarray(np.roll(array, 1, axes[-1])) if axes else array

    def put(x: object, y: object) -> Batch:
        return adapter.put(map_tree(moved, x), y)

    if case.scenario == "varlen":
        stream = adapter.workload.make_stream(
            adapter.config, case.batch, find_length_strategy(case)
        )
        adapter.stream = [put(x, y) for x, y in stream]
    else:
        x, y = adapter.workload.make_batch(adapter.config, case.batch)
        adapter.inputs = put(x, y)
