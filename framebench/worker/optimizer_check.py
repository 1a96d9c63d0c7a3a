"""Compare how weights moved with the update that follows from the optimizer's states.

The tolerances of gradients in bfloat16 would hide half a learning rate, or a missing weight decay.
So each update is computed again from the optimizer's states, by the textbook's formula, and
compared with how the weight moved.
"""

from __future__ import annotations

import math
import zlib

import numpy as np

from framebench.adapters.base import Adapter
from framebench.models.spec import USER_MODEL, Optimizer
from framebench.suite.case import Case
from framebench.suite.tensors import view_as_real

ROUNDINGS = 2  # of a weight in one update: after the decay, and after the change
FLOAT32_ROUNDOFF = 2.0**-24
CHUNK = 1 << 16  # numbers at once, so that intermediate results stay in the processor's cache


def compute_update(
    optimizer: Optimizer, step: int, weight: np.ndarray, states: dict[str, np.ndarray]
) -> np.ndarray:
    """Return the weight after an update, in float64. Raises KeyError if a state is missing.

    Args:
        optimizer: SGD with momentum, Adam or AdamW, with its settings.
        step: The number of the update, counted from 1.
        weight: The weight before the update.
        states: By kind, the optimizer's states after the update, of the weight's shape.
    """
    rate = optimizer.lr
    if optimizer.name == "sgd":
        momentum = states["momentum"].astype(np.float64)
        return weight - rate * momentum
    first_moment = states["first moment"].astype(np.float64)
    second_moment = states["second moment"].astype(np.float64)
    # moments begin at zero, which biases the first steps
    beta1, beta2 = optimizer.betas
    first_moment = first_moment / (1 - beta1**step)
    second_moment = second_moment / (1 - beta2**step)
    decayed = weight * (1 - rate * optimizer.weight_decay)
    return decayed - rate * first_moment / (np.sqrt(second_moment) + optimizer.eps)


class OptimizerCheck:
    """Recompute the expected change of every float32 weight from the optimizer's states.

    Create it right after the first update, and call `record_update` after each later one. Weights
    in a narrower type are not compared, since it rounds small changes away. A complex number counts
    as a pair of real ones, as PyTorch's optimizers update it.

    Args:
        adapter: Has made its first update.
        initial_weights: By name, the weights before that update.
    """

    def __init__(self, adapter: Adapter, initial_weights: dict[str, np.ndarray]) -> None:
        """Record the first update."""
        self.steps = 0
        self.initial_weights = {name: view_as_real(w) for name, w in initial_weights.items()}
        self.skipped: set[str] = set()  # weights that an update left as they were, states included
        self.marks: dict[str, dict[str, int]] = {}  # checksums of a weight's states, by kind
        # by weight name, in float32: the expected weight after all updates, minus the initial one
        self.expected_change: dict[str, np.ndarray] = {}
        self.record_update(adapter)

    def record_update(self, adapter: Adapter) -> None:
        """Add the update that the adapter has just made to the expected changes."""
        self.steps += 1
        optimizer = adapter.case.optimizer
        # a user's optimizer is unknown, and Adafactor's update needs the gradient
        if optimizer.name in (USER_MODEL, "adafactor"):
            return
        states_by_weight: dict[str, dict[str, np.ndarray]] = {}
        for state in adapter.states():
            # A state in 8 bits was rounded after the update, so it does not give the update.
            if state.nbytes < 2 * state.array.size:
                return
            flat = view_as_real(state.array).reshape(-1)
            states_by_weight.setdefault(state.name, {})[state.kind] = flat
        unchanged = self.find_unchanged_weights(states_by_weight)
        self.skipped |= unchanged
        may_skip = unchanged & list_skipped_by_baseline(adapter.case)
        for name, states in states_by_weight.items():
            # a missing state is reported by the comparison of tensors
            has_all_states = set(optimizer.states) <= set(states)
            if has_all_states and name in self.initial_weights and name not in may_skip:
                self.record_weight_update(optimizer, name, states)

    def find_unchanged_weights(
        self, states_by_weight: dict[str, dict[str, np.ndarray]]
    ) -> set[str]:
        """Return the names of weights whose states are as they were after the update before."""
        unchanged = set()
        for name, states in states_by_weight.items():
            marks = {kind: zlib.crc32(array.tobytes()) for kind, array in states.items()}
            if marks == self.marks.get(name):
                unchanged.add(name)
            self.marks[name] = marks
        return unchanged

    def record_weight_update(
        self, optimizer: Optimizer, name: str, states: dict[str, np.ndarray]
    ) -> None:
        """Add one update to the expected change of one weight, chunk by chunk.

        Args:
            optimizer: See `compute_update`.
            name: The name of the weight.
            states: By kind, the weight's states after the update, as flat arrays.
        """
        initial_weight = self.initial_weights[name]
        if name not in self.expected_change:
            self.expected_change[name] = np.zeros(initial_weight.shape, np.float32)
        initial = initial_weight.reshape(-1)
        # a view: what is written into it is written into `self.expected_change`
        change = self.expected_change[name].reshape(-1)
        for start in range(0, initial.size, CHUNK):
            chunk = slice(start, start + CHUNK)
            initial_numbers = initial[chunk]
            before = initial_numbers + change[chunk].astype(np.float64)
            states_of_chunk = {kind: state[chunk] for kind, state in states.items()}
            after = compute_update(optimizer, self.steps, before, states_of_chunk)
            change[chunk] = after - initial_numbers

    def compute_errors(self, adapter: Adapter) -> dict[str, float]:
        """Return the relative error of each weight's change, by name.

        The error is the norm of the difference to the expected change, less what rounding may add,
        divided by the norm of the expected change.
        """
        errors_by_weight = {}
        for name, array in adapter.weights():
            numbers = view_as_real(array)
            if name not in self.expected_change or numbers.dtype != np.float32:
                continue
            initial = self.initial_weights[name]
            expected = self.expected_change[name]
            change = numbers.astype(np.float64) - initial
            difference = compute_norm(change - expected)
            rounding = self.steps * ROUNDINGS * FLOAT32_ROUNDOFF * compute_norm(initial)
            # not `max`, which would hide NaN
            beyond_rounding = float(np.maximum(difference - rounding, 0))
            size = compute_norm(expected)
            if size:
                errors_by_weight[name] = beyond_rounding / size
            else:  # a weight without a gradient must not move
                errors_by_weight[name] = math.inf if beyond_rounding else 0.0
        return errors_by_weight


def list_skipped_by_baseline(case: Case) -> set[str]:
    """Return the weights that the baseline's own updates leave alone; a strategy may do so too.

    A user's model may drop a layer in a step, or add gradients up over several. The weights then
    have no gradient, and neither they nor their states change. `user_file.reference` has found out
    which weights these are.
    """
    if case.workload != USER_MODEL:
        return set()
    skipped: dict[str, list[str]] = case.workload_spec.facts.get("skipped", {})
    return set(skipped.get(case.golden_key, ()))


def compute_norm(array: np.ndarray) -> float:
    """Return the Euclidean norm in float64."""
    return float(np.linalg.norm(array.astype(np.float64)))
