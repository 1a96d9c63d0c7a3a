"""How far a right computation may be off from a user's float32 baseline: the rule, and its statistics. NumPy only.

The baseline is run again `DRAWS` times, each time with other random roundings of a precision's size. In PyTorch every operation
rounds its result, and products their factors too (`torch_rounding.py`); in Flax and Jittor the weights are moved, in Flax each
layer's inputs and outputs as well. Each draw is a right computation, so how far it lies from the baseline is a sample of what
rounding explains.

1. Each tensor has its own scale: the root mean square, over the draws, of its error relative to its norm. The largest of a few
   errors would be a random number itself; a mean square has a known distribution.
2. A draw counts as one degree of freedom, however many numbers a tensor has: rounding upstream may move all of them along one
   direction. So an error divided by the scale follows Student's distribution with as many degrees as there were draws.
3. An error is called wrong beyond the quantile that a right one exceeds once in 1 / `FALSE_ALARM`. Fewer draws mean a wider
   tolerance, by Student's table and not by hand.
4. A family of tensors, the same weight of each block, has the largest scale among its members. The losses share theirs.
5. Nothing is narrower than the floors of `suite/tolerance.py`; a loss in bfloat16 may be off by one whole rounding.
6. A tensor whose gradient is rounding alone is not compared (`reference.py`). One whose tolerance reaches 1 would pass with no
   gradient at all: it is counted, and told.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache

import numpy as np

from framebench.suite.tensors import errors, largest
from framebench.suite.tolerance import MULTIPLE, Errors, Pair
from framebench.worker.observe import Observed

DRAWS = {"fp32": 4, "bf16": 12}  # even numbers. In float32 a wide tolerance is narrow still
FALSE_ALARM = 1e-5  # of one comparison; a trial makes some thousand, many of which go together


@cache
def student(degrees: int) -> float:
    """What a Student variable of so many degrees, an even number, exceeds in absolute value with the chance FALSE_ALARM."""
    low, high = 0.0, 1e6
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _beyond(middle, degrees) > FALSE_ALARM else (low, middle)
    return high


def _beyond(value: float, degrees: int) -> float:
    """The chance of a larger absolute value (Abramowitz and Stegun, 26.7.4)."""
    sine = value / math.hypot(value, math.sqrt(degrees))
    term = total = 1.0
    for k in range(1, degrees // 2):
        term *= (2 * k - 1) / (2 * k) * (1 - sine**2)
        total += term
    return 1 - sine * total


def explained(draws: list[Observed], observed: Observed, lost: set[str]) -> Errors:
    """What these draws explain of each family of tensors, without those that are lost. `tolerance` takes MULTIPLE times it."""
    share = student(len(draws)) / MULTIPLE
    scales: Errors = {kind: {} for kind in observed.tensors}
    for kind, summaries in observed.tensors.items():
        left = {name: summary for name, summary in summaries.items() if name not in lost}
        off = {name: [errors(draw.tensors[kind][name], summary) for draw in draws] for name, summary in left.items()}
        scales[kind] = largest({name: _scale(pairs, share) for name, pairs in off.items()})
    scales["update"] = largest({name: _scale([(d.updates[name],) * 2 for d in draws], share) for name in observed.updates})
    scales["value"] = _values(draws, observed, share)
    return scales


def _scale(pairs: Iterable[Pair], share: float) -> Pair:
    norm, projections = share * np.sqrt(np.mean(np.square(list(pairs)), axis=0))
    return float(norm), float(projections)


def _values(draws: list[Observed], observed: Observed, share: float) -> dict[str, Pair]:
    """Of each number. Losses share the largest."""
    scales = {
        name: _scale([(abs(d.values[name] / value - 1), 0.0) for d in draws], share)[0]
        for name, value in observed.values.items()
    }
    losses = max((scale for name, scale in scales.items() if name.startswith("loss")), default=0.0)
    return {name: (losses if name.startswith("loss") else scale, 0.0) for name, scale in scales.items()}
