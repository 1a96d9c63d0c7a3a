"""What an optimizer should have made of its own states.

Gradients in bfloat16 are off by a tenth, and Adam's first updates are hardly more than their signs: half the learning rate, or
no weight decay, hides among them. Not so beside the states: whatever the gradients were, the weights must have moved as the
textbook says for the moments that the optimizer holds.
"""

from __future__ import annotations

import math

import numpy as np

from framebench.adapters.base import Adapter
from framebench.models.spec import OWN, Optimizer

ROUNDINGS = 2  # of a weight in an update: by the decay, by the change
CHUNK = 1 << 16  # numbers at once: what is made of them in between stays in the processor's cache


def moved(o: Optimizer, step: int, weight: np.ndarray, states: dict[str, np.ndarray]) -> np.ndarray:
    """The weight after update number `step`, counted from 1, in float64, from the states after it. Raises KeyError where one of
    them is missing."""
    wide = {kind: array.astype(np.float64) for kind, array in states.items()}
    if o.name == "sgd":
        return weight - o.lr * wide["momentum"]
    first, second = wide["first moment"] / (1 - o.betas[0] ** step), wide["second moment"] / (1 - o.betas[1] ** step)
    return weight * (1 - o.lr * o.weight_decay) - o.lr * first / (np.sqrt(second) + o.eps)


class OptimizerCheck:
    """Follows an adapter from its first update on, and from the weights `before` it. Only float32 weights: narrower ones round
    a change away."""

    def __init__(self, adapter: Adapter, before: dict[str, np.ndarray]) -> None:
        self.steps, self.before = 0, before
        self.change: dict[str, np.ndarray] = {}  # float32, of each weight that has states
        self.follow(adapter)

    def follow(self, adapter: Adapter) -> None:
        """Call it after every update."""
        self.steps += 1
        if adapter.case.optimizer.name in (OWN, "adafactor"):  # none of a user's; the latter's needs the gradient
            return
        state_arrays: dict[str, dict[str, np.ndarray]] = {}
        for state in adapter.states():
            if state.nbytes < 2 * state.array.size:  # in 8 bits: the update was made of what was rounded only after it
                return
            state_arrays.setdefault(state.name, {})[state.kind] = state.array
        for name in state_arrays.keys() & self.before.keys():
            self._follow(adapter.case.optimizer, name, state_arrays[name])

    def _follow(self, optimizer: Optimizer, name: str, states: dict[str, np.ndarray]) -> None:
        """One weight's change, which is kept in place."""
        start, flat = self.before[name].reshape(-1), {kind: array.reshape(-1) for kind, array in states.items()}
        change = self.change.setdefault(name, np.zeros(self.before[name].shape, "f4")).reshape(-1)
        for first in range(0, start.size, CHUNK):
            part = slice(first, first + CHUNK)
            weight = start[part] + change[part].astype(np.float64)
            change[part] = (
                moved(optimizer, self.steps, weight, {kind: array[part] for kind, array in flat.items()}) - start[part]
            )

    def errors(self, adapter: Adapter) -> dict[str, float]:
        """By tensor: the norm of what its change has beside the textbook's and rounding, relative to the textbook's."""
        errors_by_tensor = {}
        for name, array in adapter.weights():
            if name in self.change and array.dtype == np.float32:
                off = np.linalg.norm(array.astype(np.float64) - self.before[name] - self.change[name])
                rounding = self.steps * ROUNDINGS * 2.0**-24 * np.linalg.norm(self.before[name].astype(np.float64))
                size = float(np.linalg.norm(self.change[name].astype(np.float64)))
                errors_by_tensor[name] = relative(float(np.maximum(off - rounding, 0)), size)
        return errors_by_tensor


def relative(off: float, size: float) -> float:
    """What should not move at all, as a weight without a gradient, must not."""
    return off / size if size else math.inf if off else 0.0
