"""What is asked of a user's model before anything is compared with it: is it random, do micro-batches add up to the batch,
and which weights get a gradient. Gradients answer: a loss says nothing while a head is zero."""

from __future__ import annotations

import math
import pickle
import random
from typing import Any

import numpy as np

from framebench.adapters.base import Adapter
from framebench.suite.tensors import Summaries, Summary, measure_errors, summarize_all
from framebench.suite.trees import split
from framebench.worker.observe import Observed

SAME = 1e-4  # relative: float32's rounding explains less, in the gradients of all weights together
SAME_IN_BF16 = 2.0**-6  # where the file itself computes in a lower precision, as under an autocast of its own
PROPORTIONAL = "momentum", "first moment"  # states that are the first step's gradient, but for a factor
HALVES = 2
SUM = "the loss is a sum over the batch, and accumulation divides it by the number of micro-batches: return the mean"
COUPLED = "samples look at each other, as with batch norm or in-batch negatives, so that micro-batches are other mathematics"

DRAWN = "random numbers are drawn anew for each micro-batch, as by dropout, so that their gradients add up to another one"


def largest_difference(one: Observed, other: Observed) -> tuple[str, float]:
    """Return the quantity in which two runs from the same weights differ most, and its relative difference.

    Weights are skipped: an optimizer that divides by a second moment turns rounding in a gradient into a whole update.
    """
    off = {name: abs(one.values[name] / value - 1) for name, value in other.values.items() if name.startswith("loss") and value}
    off |= {kind: _together(one.tensors[kind], other.tensors[kind]) for kind in other.tensors if kind != "weight"}
    most = max(off, key=lambda what: off[what], default="loss")
    return most.split("_")[0], off.get(most, 0.0)


def _together(one: dict[str, Summary], other: dict[str, Summary]) -> float:
    """Return the error of all tensors of a kind together, relative to their norm."""
    norms = {name: summary[0] for name, summary in other.items()}
    square = sum((max(measure_errors(one[name], summary)) * norms[name]) ** 2 for name, summary in other.items() if norms[name])
    stray = any(one[name][0] for name, norm in norms.items() if not norm)
    return math.inf if stray else math.sqrt(square / (sum(norm**2 for norm in norms.values()) or 1.0))


def narrow(adapter: Adapter) -> bool:
    """Whether the file computes products in less than float32 by itself."""
    products = adapter.observe().get("products") if adapter.case.framework == "torch" else None
    return isinstance(products, dict) and not products.keys() <= {"float32", "float64", "complex64", "complex128"}


def accumulation(adapter: Adapter, same: float = SAME) -> str:
    """Why micro-batches are other mathematics for this model; empty where they are not. What is as close as `same` is alike.

    The batch's gradient is fitted by those of its halves, as they are before an optimizer clips them. For a mean both count one
    half; for a sum both count once; for a mean over unequal numbers of tokens by their share; and where samples look at each
    other nothing fits. Projections are linear in the gradient, so that they are fitted in its place.
    """
    x, y = adapter.workload.make_batch(adapter.config, adapter.case.batch)
    if adapter.case.batch % HALVES:
        return ""
    whole = _gradient(adapter, x, y)
    try:
        halves = [_gradient(adapter, *part) for part in zip(split(x, HALVES), split(y, HALVES))]
    except Exception as error:  # the user's, whose targets may be places in the batch
        said = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return f"half of the batch ends in an error ({said}); targets that number the samples are better made in `loss`"
    mean = sum(half.values["loss_0"] for half in halves) / HALVES
    alike = abs(mean - whole.values["loss_0"]) <= same * abs(whole.values["loss_0"])
    return describe_coupling(*_fitted(whole, halves), alike, same)


def draws_in_python(adapter: Adapter) -> bool:
    """Whether a step draws from Python's generator or NumPy's, which are not stilled."""
    adapter.restore()
    adapter.seed()
    before = random.getstate(), pickle.dumps(np.random.get_state())
    adapter.model_module.gradient_of(adapter)
    return (random.getstate(), pickle.dumps(np.random.get_state())) != before


def find_stateful_buffer(adapter: Adapter) -> str:
    """Return a buffer that a forward pass changes and the next one reads, as spectral norm's; empty if there is none.

    That is looked for after an update, since a moving average of weights that stay is what it was.
    """
    adapter.restore()
    with adapter.disable_randomness():
        adapter.step()
    parts = adapter.workload.make_batch(adapter.config, adapter.case.batch)
    one = _gradient(adapter, *parts, again=True)
    before = _buffers(adapter)
    other = _gradient(adapter, *parts, again=True)
    changed = [name for name, array in _buffers(adapter).items() if not np.array_equal(array, before[name], equal_nan=True)]
    adapter.restore()
    return changed[0] if changed and largest_difference(other, one)[1] > SAME else ""


def _buffers(adapter: Adapter) -> dict[str, np.ndarray]:
    names = {p.name for p in adapter.workload.params(adapter.config) if not p.trainable}
    return {name: array.copy() for name, array in adapter.weights() if name in names}


def describe_coupling(shares: np.ndarray, left: float, alike: bool, same: float = SAME) -> str:
    """Say why micro-batches change the mathematics; empty if they do not.

    `shares`: what each half's gradient counts in the batch's, by least squares. `left`: what they leave of it, relative.
    """
    if left > same:
        return COUPLED
    if np.allclose(shares, 1 / HALVES, atol=10 * same) and alike:
        return ""
    if np.allclose(shares, 1, atol=10 * same):
        return SUM
    counted = " and ".join(f"{share:.0%}" for share in shares)
    return f"tokens are unequal: in the batch's loss its halves count {counted}, so that accumulation is other mathematics"


def _gradient(adapter: Adapter, x: Any, y: Any, again: bool = False) -> Observed:
    """From the first weights, or as they are."""
    adapter.inputs = adapter.put(x, y)
    if not again:
        adapter.restore()
    with adapter.disable_randomness():
        loss, gradient = adapter.model_module.gradient_of(adapter)
    return Observed({"loss_0": loss}, {"gradient": summarize_all(gradient)})


def _fitted(whole: Observed, halves: list[Observed]) -> tuple[np.ndarray, float]:
    """The share of each half in the batch's gradient, and what they leave of it."""
    wanted = whole.tensors["gradient"]
    matrix = np.stack([_projections(half.tensors["gradient"], wanted) for half in halves], 1)
    vector = _projections(wanted, wanted)
    solution = np.linalg.lstsq(matrix, vector, rcond=None)[0]
    return solution, float(np.linalg.norm(vector - matrix @ solution) / (np.linalg.norm(vector) or 1.0))


def _projections(tensors: dict[str, Summary], names: dict[str, Summary]) -> np.ndarray:
    nothing = (0.0,) * len(next(iter(names.values())))
    return np.concatenate([tensors.get(name, nothing)[1:] for name in names])


def without_gradient(params: list[tuple[str, list[int], bool]], observed: Observed) -> dict[str, Any]:
    """How many weights get no gradient in the first step, and which get none in the second either."""
    trained = [name for name, _, trainable in params if trainable]
    first = [name for name in trained if not observed.tensors["gradient"].get(name, (0.0,))[0]]
    ever = {name for kind in observed.tensors if kind not in ("buffer",) for name in _moved(observed.tensors, kind)}
    return {"weights": len(trained), "first": len(first), "ever": [name for name in first if name not in ever]}


def _moved(tensors: Summaries, kind: str) -> list[str]:
    """Weight decay moves a weight, too: where there are states these say whether there was a gradient."""
    if kind == "weight" and any(name in tensors for name in PROPORTIONAL):
        return []
    return [name for name, summary in tensors[kind].items() if summary[0]]
