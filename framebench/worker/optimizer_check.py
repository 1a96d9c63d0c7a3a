"""Compare how weights moved with what the optimizer should have made of its own states.

The tolerances of gradients in bfloat16 would hide half a learning rate, or a missing weight decay.
So each update is computed again from the optimizer's own states, as the textbook has it, and
compared with how the weight moved.
"""

from __future__ import annotations

import math

import numpy as np

from framebench.adapters.base import Adapter
from framebench.models.spec import USER_MODEL, Optimizer

ROUNDINGS = 2  # of a weight in an update: by the decay, by the change
FLOAT32_ROUNDOFF = 2.0**-24
CHUNK = 1 << 16  # numbers at once: what is made of them in between stays in the processor's cache


def update(
    optimizer: Optimizer, step: int, weight: np.ndarray, states: dict[str, np.ndarray]
) -> np.ndarray:
    """Return the weight after update number `step`, counted from 1, in float64, from the states
    after it.

    Raises KeyError where one of the states is missing.
    """
    wide = {kind: array.astype(np.float64) for kind, array in states.items()}
    if optimizer.name == "sgd":
        return weight - optimizer.lr * wide["momentum"]
    first = wide["first moment"] / (1 - optimizer.betas[0] ** step)
    second = wide["second moment"] / (1 - optimizer.betas[1] ** step)
    decayed = weight * (1 - optimizer.lr * optimizer.weight_decay)
    return decayed - optimizer.lr * first / (np.sqrt(second) + optimizer.eps)


class OptimizerCheck:
    """Follows an adapter from its first update on.

    `before` are the weights before that. Only float32 weights are compared: narrower ones round a
    change away.
    """

    def __init__(self, adapter: Adapter, before: dict[str, np.ndarray]) -> None:
        self.steps = 0
        self.before = before
        # float32, of each weight that has states: what it should be by now
        self.change: dict[str, np.ndarray] = {}
        self.follow(adapter)

    def follow(self, adapter: Adapter) -> None:
        """Take in the states after an update. Call it after every update."""
        self.steps += 1
        optimizer = adapter.case.optimizer
        # a user's is not known, and Adafactor's update needs the gradient
        if optimizer.name in (USER_MODEL, "adafactor"):
            return
        states_by_weight: dict[str, dict[str, np.ndarray]] = {}
        for state in adapter.states():
            # in 8 bits: the update was made of what was rounded only after it
            if state.nbytes < 2 * state.array.size:
                return
            states_by_weight.setdefault(state.name, {})[state.kind] = state.array
        for name, states in states_by_weight.items():
            # else verification reports the state that is missing
            is_whole = set(optimizer.states) <= set(states)
            if name in self.before and is_whole:
                self.follow_weight(optimizer, name, states)

    def follow_weight(self, optimizer: Optimizer, name: str, states: dict[str, np.ndarray]) -> None:
        """Bring the expected change of one weight up to date, chunk by chunk."""
        if name not in self.change:
            self.change[name] = np.zeros(self.before[name].shape, np.float32)
        start = self.before[name].reshape(-1)
        change = self.change[name].reshape(-1)
        flat = {kind: array.reshape(-1) for kind, array in states.items()}
        for first in range(0, start.size, CHUNK):
            part = slice(first, first + CHUNK)
            weight = start[part] + change[part].astype(np.float64)
            states_of_part = {kind: array[part] for kind, array in flat.items()}
            change[part] = update(optimizer, self.steps, weight, states_of_part) - start[part]

    def errors(self, adapter: Adapter) -> dict[str, float]:
        """Return by weight how far its change is from the textbook's beyond rounding, relative to
        the textbook's.
        """
        errors_by_weight = {}
        for name, array in adapter.weights():
            if name not in self.change or array.dtype != np.float32:
                continue
            before = self.before[name]
            change = self.change[name]
            off = norm(array.astype(np.float64) - before - change)
            rounding = self.steps * ROUNDINGS * FLOAT32_ROUNDOFF * norm(before)
            errors_by_weight[name] = relative(float(np.maximum(off - rounding, 0)), norm(change))
        return errors_by_weight


def norm(array: np.ndarray) -> float:
    """Return the Euclidean norm in float64."""
    return float(np.linalg.norm(array.astype(np.float64)))


def relative(off: float, size: float) -> float:
    """Return an error relative to a size.

    What should not move at all, as a weight without a gradient, must not.
    """
    if size:
        return off / size
    return math.inf if off else 0.0
