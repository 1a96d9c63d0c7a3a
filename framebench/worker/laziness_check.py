"""Check that a timed step does its work while it is timed.

The step must not do the work later, when its result is read, nor do it once for all steps. Its
result is verified in `verification.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from framebench.adapters.base import Adapter, Batch
from framebench.models.spec import USER_MODEL
from framebench.suite.trees import list_arrays, map_tree
from framebench.worker.stepping import make_timed_step

TRIES = 3  # a step whose result was late is tried so often: another process may have had the core
REPEATED = 3  # so many steps are repeated, after the verified ones
SHORTEST_S = 5e-3  # reading a result from a device takes less


def describe_late_result(adapter: Adapter) -> str:
    """Return a sentence if a step is not done when its clock stops, or "" if it is done.

    It counts as done if, in one of up to TRIES steps, reading the result took no longer than the
    step itself.
    """
    case = adapter.case
    read_result: Callable[[], object] = adapter.loss
    if case.workload == USER_MODEL and case.scenario_spec.observes == "logits":
        # a user's loss is computed when it is read, and may take longer than the step
        read_result = adapter.logits
    for _ in range(TRIES):
        step_s = make_timed_step(adapter)
        start = time.perf_counter()
        read_result()
        read_s = time.perf_counter() - start
        if read_s < max(step_s, SHORTEST_S):
            return ""
    return (
        f"the result could be read {1e3 * read_s:.0f} ms after the clock of a step of "
        f"{1e3 * step_s:.0f} ms had stopped"
    )


def describe_other_losses(adapter: Adapter, losses: list[float], allowed: float) -> str:
    """Repeat the first steps, and describe the first loss that differs from the one in `losses`.

    Return an empty string if none differs by more than `allowed`, which is relative. This finds a
    program that works only every few steps: in the repetition these are other steps.
    """
    for expected_loss in losses[:REPEATED]:
        make_timed_step(adapter)
        repeated_loss = adapter.loss()
        if not abs(repeated_loss - expected_loss) <= allowed * abs(expected_loss):  # NaN differs
            return f"repeated, a step gave the loss {repeated_loss} instead of {expected_loss}"
    return ""


def describe_ignored_inputs(adapter: Adapter) -> str:
    """Return a sentence if other inputs give the same loss, or "" if they do not.

    It makes a step with shifted inputs, and puts the inputs back. The step must have no update.
    """
    loss = adapter.loss()
    # an adapter has one of these attributes, or both
    names = {"inputs", "stream"} & vars(adapter).keys()
    inputs_before = {name: vars(adapter)[name] for name in names}
    give_other_inputs(adapter)
    make_timed_step(adapter)
    is_same = adapter.loss() == loss
    for name, value in inputs_before.items():
        setattr(adapter, name, value)
    return "other inputs gave the same loss" if is_same else ""


def give_other_inputs(adapter: Adapter) -> None:
    """Shift each sample of the adapter's inputs by one place, and do not change the targets."""
    case = adapter.case
    if case.scenario == "varlen":
        adapter.stream = [put_shifted(adapter, x, y) for x, y in case.make_stream()]
    else:
        x, y = adapter.workload.make_batch(adapter.config, case.batch)
        adapter.inputs = put_shifted(adapter, x, y)


def put_shifted(adapter: Adapter, x: object, y: object) -> Batch:
    """Put inputs x, each sample shifted, and targets y on the device.

    In a user's inputs with floating-point numbers, whole numbers stay: they may be places of nodes
    in a graph, or ends of sequences.
    """
    has_floats = any(is_float_array(array) for array in list_arrays(x))
    only_floats = adapter.case.workload == USER_MODEL and has_floats

    def shift_array(array: Any) -> Any:
        if not isinstance(array, np.ndarray):  # a user's sparse tensor
            return array
        if only_floats and not is_float_array(array):
            return array
        return shift(array)

    return adapter.put(map_tree(shift_array, x), y)


def is_float_array(array: Any) -> bool:
    """Return whether something is a NumPy array of floating-point numbers."""
    return isinstance(array, np.ndarray) and np.issubdtype(array.dtype, np.floating)


def shift(array: np.ndarray) -> np.ndarray:
    """Return the array shifted by one along its last axis with several places, such as a token.

    If a sample is a single number, the axis is that of the batch.
    """
    axes = [axis for axis, length in enumerate(array.shape) if length > 1]
    if not axes:
        return array
    return np.ascontiguousarray(np.roll(array, 1, axes[-1]))
