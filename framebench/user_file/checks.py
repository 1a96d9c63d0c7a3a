"""Check a user's model before anything is compared with it.

Is it random, do micro-batches add up to the batch, and which weights get a gradient? Gradients
answer: a loss says nothing while a head is zero.
"""

from __future__ import annotations

import math
import pickle
import random

import numpy as np

from framebench.adapters.base import Adapter, Batch
from framebench.models.user_facts import MissingGradients
from framebench.models.user_model import FULL_PRECISIONS
from framebench.suite.counting import format_count
from framebench.suite.tensors import (
    NORM,
    PROJECTIONS,
    Summaries,
    Summary,
    measure_max_error,
    summarize_all,
)
from framebench.suite.user_file import DoesNotApply, Fault
from framebench.worker.observe import Observed

# Relative differences that count as none. Float32's rounding explains less, in the gradients of all
# weights together; the second is for files that compute in a lower precision, as under an autocast.
SAME = 1e-4
SAME_IN_BF16 = 2.0**-6
# The same of micro-batches. Above the first, float32 does not tell rounding from a small part of
# the loss that is no mean, and float64 does.
SURELY_SAME = 1e-6
SAME_IN_FLOAT64 = 1e-9
# states of an optimizer that are proportional to the gradient after the first step
PROPORTIONAL = "momentum", "first moment"
HALVES = 2
NOT_ADDITIVE = (
    "micro-batches do not add up to the batch's gradient: the loss is a sum over the batch (return "
    "the mean), a mean over unequal numbers of tokens, or samples look at each other, as with "
    "batch norm, in-batch negatives or experts that are balanced"
)
DRAWN = (
    "random numbers are drawn anew for each micro-batch, as by dropout, so that their "
    "gradients add up to another one"
)


def find_largest_difference(one: Observed, other: Observed) -> tuple[str, float]:
    """Return the quantity in which two runs differ most, and its relative difference.

    Both runs began with the same weights. Weights are skipped: an optimizer that divides by a
    second moment turns rounding in a gradient into a whole update.
    """
    differences = {"loss": 0.0}
    for name, value in other.values.items():
        if name.startswith("loss") and value:
            difference = abs(one.values[name] / value - 1)
            differences["loss"] = max(differences["loss"], make_comparable(difference))
    for kind, tensors in other.tensors.items():
        if kind != "weight":
            error = find_total_error(one.tensors[kind], tensors)
            differences[kind] = make_comparable(error)
    largest = max(differences, key=lambda name: differences[name])
    return largest, differences[largest]


def make_comparable(difference: float) -> float:
    """Return infinity for NaN, which compares as neither larger nor smaller than any number."""
    return math.inf if math.isnan(difference) else difference


def find_total_error(observed: dict[str, Summary], reference: dict[str, Summary]) -> float:
    """Return the error of all tensors of a kind together, relative to their norm.

    It is infinite where a tensor that should be zero is not.
    """
    squared_error = squared_norm = 0.0
    for name, summary in reference.items():
        norm = summary[NORM]
        if norm:
            squared_error += (measure_max_error(observed[name], summary) * norm) ** 2
            squared_norm += norm**2
        elif observed[name][NORM]:
            return math.inf
    return math.sqrt(squared_error / (squared_norm or 1.0))


def uses_lower_precision(adapter: Adapter) -> bool:
    """Return whether the file itself turns on matmuls below float32; only PyTorch tells."""
    if adapter.case.framework != "torch":
        return False
    products = adapter.observe().get("products")
    return isinstance(products, dict) and not products.keys() <= FULL_PRECISIONS


def measure_accumulation(adapter: Adapter) -> float:
    """Return by how much micro-batches compute something else than the batch, relative to it.

    The loss and gradient of the batch, as they are before an optimizer clips them, should be the
    means of those of its halves. Projections are linear in the gradient, so that they are compared
    in its place. Raises DoesNotApply if the model does not run on half of the batch.
    """
    if adapter.case.batch % HALVES:
        return 0.0
    batch = adapter.put(*adapter.workload.make_batch(adapter.config, adapter.case.batch))
    whole = compute_gradient(adapter, batch)
    halves = []
    try:
        for part in adapter.cut_batch(batch, HALVES):
            halves.append(compute_gradient(adapter, part))
    except Fault:  # of the file's `split`
        raise
    except Exception as error:  # the user's, whose targets may be places in the batch
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise DoesNotApply(
            f"half of the batch ends in an error ({reason}); targets that number the samples "
            "are better made in `loss`, and split(batch, k) cuts what has no axis of samples"
        ) from error
    loss = np.array([whole.values["loss_0"]])
    mean_loss = sum(half.values["loss_0"] for half in halves) / HALVES
    names = list(whole.tensors["gradient"])
    gradient = join_projections(whole.tensors["gradient"], names)
    mean = sum(join_projections(half.tensors["gradient"], names) for half in halves) / HALVES
    return max(measure_distance(mean_loss, loss), measure_distance(mean, gradient))


def measure_distance(vector: np.ndarray | float, reference: np.ndarray) -> float:
    """Return the distance of a vector from a reference, relative to the reference's norm."""
    distance = float(np.linalg.norm(vector - reference))
    norm = float(np.linalg.norm(reference))
    if not distance:
        return 0.0
    return make_comparable(distance / norm) if norm else math.inf


def join_projections(tensors: dict[str, Summary], names: list[str]) -> np.ndarray:
    """Return the projections of these tensors as one vector; a tensor that is not there is zero."""
    projections = []
    for name in names:
        summary = tensors.get(name, (0.0,) * (1 + PROJECTIONS))
        projections.append(summary[1:])  # without the norm
    return np.concatenate(projections)


def compute_gradient(adapter: Adapter, batch: Batch, restore: bool = True) -> Observed:
    """Return loss and gradient of a batch without randomness, from the first weights by default.

    The batch is on the device.
    """
    adapter.inputs = batch
    if restore:
        adapter.restore()
    with adapter.disable_randomness():
        loss, gradient = adapter.model_module.compute_gradient(adapter)
    return Observed({"loss_0": loss}, {"gradient": summarize_all(gradient)})


def draws_in_python(adapter: Adapter) -> bool:
    """Return whether a gradient draws from Python's generator or NumPy's, which are never disabled.

    The adapter computes one from its first weights.
    """
    adapter.restore()
    adapter.seed()
    before = random.getstate(), pickle.dumps(np.random.get_state())
    adapter.model_module.compute_gradient(adapter)
    return (random.getstate(), pickle.dumps(np.random.get_state())) != before


def find_stateful_tensors(adapter: Adapter) -> str:
    """Return which untrained tensors change in each forward pass, in words; "" if there are none.

    Examples are the buffers of spectral norm, and the weights of a target network that follows the
    trained ones slowly. Such a tensor depends on the number of forward passes, which micro-batches
    change. It is looked for after an update, since a moving average of the weights changes only
    when the weights do. The adapter ends with its first weights.
    """
    adapter.restore()
    with adapter.disable_randomness():
        adapter.step()
    batch = adapter.put(*adapter.workload.make_batch(adapter.config, adapter.case.batch))
    compute_gradient(adapter, batch, restore=False)
    before = copy_untrained(adapter)
    compute_gradient(adapter, batch, restore=False)
    changed = []
    for name, array in copy_untrained(adapter).items():
        if not np.array_equal(array, before[name], equal_nan=True):
            changed.append(name)
    adapter.restore()
    return join_names(changed)


def join_names(names: list[str]) -> str:
    """Return the first of several tensors' names, and how many others there are; "" for none."""
    if len(names) < 2:
        return "".join(names)
    return f"{names[0]} and {format_count(len(names) - 1, 'other tensor')}"


def copy_untrained(adapter: Adapter) -> dict[str, np.ndarray]:
    """Return a copy of each buffer and each frozen weight of the model, by name."""
    params = adapter.workload.params(adapter.config)
    names = {param.name for param in params if not param.trainable}
    return {name: array.copy() for name, array in adapter.weights() if name in names}


def describe_without_gradient(
    params: list[tuple[str, list[int], bool]],
    observed: Observed,
) -> MissingGradients:
    """Return how many weights get no gradient in the first step, and which get none later either.

    `params` has name, shape and whether it is trained.
    """
    gradient = observed.tensors["gradient"]
    moved: set[str] = set()
    for kind in observed.tensors:
        moved.update(list_moved(observed.tensors, kind))
    trained = [name for name, _, is_trained in params if is_trained]
    without = []  # those without a gradient in the first step
    for name in trained:
        if name not in gradient or not gradient[name][NORM]:
            without.append(name)
    never = [name for name in without if name not in moved]
    return {"weights": len(trained), "first": len(without), "ever": never}


def list_moved(tensors: Summaries, kind: str) -> list[str]:
    """Return the names of the tensors of a kind that can only have changed by a gradient.

    Weights change by weight decay too, so they count only if there are no optimizer states. Buffers
    change without a gradient and never count.
    """
    has_states = any(name in tensors for name in PROPORTIONAL)
    if kind == "buffer" or (kind == "weight" and has_states):
        return []
    return [name for name, summary in tensors[kind].items() if summary[NORM]]
