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
   tolerance, by Student's table and not by hand. Where steps are slow fewer are made (`Draws`).
   A first look begins with `FEW` of the draws. However the others come out, the mean square of all n is at least k / n of that
   of the k that were made: what is right by this bound is right by all of them. Anything else waits for the others.
4. A family of tensors, the same weight of each block, has the largest scale among its members. The losses share theirs.
5. Branches (a ReLU, a largest of several, a choice of experts) are taken otherwise in a few runs of many, which a scale from
   a few draws misses. They show in draws that round 2^7 times more coarsely, where what is smooth is off by 2^7 times as much.
   If a tensor is off by more than `BRANCHES` times that, the coarser draws give its scale in float32.
6. Nothing is narrower than the floors of `suite/tolerance.py`; a loss in bfloat16 may be off by one whole rounding.
7. A tensor whose gradient is rounding alone is not compared (`reference.py`). One whose norm may be off by all of it would
   pass with no gradient at all: it is counted, and told.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache

import numpy as np

from framebench.suite.tensors import errors, largest
from framebench.suite.tolerance import MULTIPLE, Errors, Pair, larger
from framebench.worker.observe import Observed

# By how much results are moved, relative: what bfloat16 rounds by at most. In float32 it is sums that differ, as they are added
# up in another order: some hundred terms then differ by as much as if each moved by eight roundoffs.
ROUNDOFF = {"fp32": 2.0**-21, "coarse": 2.0**-14, "bf16": 2.0**-8}
DRAWS = {"fp32": 4, "coarse": 4, "bf16": 12}  # even numbers. In float32 a wide tolerance is narrow still
SIZES = {"fp32": "of float32's size", "coarse": "of 2^7 times that", "bf16": "of bfloat16's"}
LEAST = {"fp32": 2, "coarse": 2, "bf16": 4}  # where the steps are slow
FEW = {"fp32": 4, "coarse": 0, "bf16": 4}  # of a first look
FEWEST = {"fp32": 1, "coarse": 0, "bf16": 2}  # of one where the steps are slow
DOUBTFUL = 0.1  # of the limit beyond which a tensor is lost: another draw may show that it is
SECONDS = 30.0  # of this process's own time, after which no more are drawn: a busy machine makes no tolerance wider
BRANCHES = 4.0
FALSE_ALARM = 1e-5  # of one comparison; a trial makes some thousand, many of which go together


class Draws:
    """How many to make of each precision: `DRAWS`, or fewer where they are slow. Each precision may take its share of the time
    and what those before it left. `few`: those that a first look begins with."""

    def __init__(self, seconds: float = SECONDS, clock: Callable[[], float] = time.process_time, few: bool = False) -> None:
        self.few, self.most, self.least = few, FEW if few else DRAWS, FEWEST if few else LEAST
        self.seconds, self.clock, self.began = seconds * sum(self.most.values()) / sum(DRAWS.values()), clock, clock()
        self.planned, self.made = 0, dict.fromkeys(DRAWS, 0)

    def of(self, precision: str) -> Iterator[int]:
        """The seeds, one after the other; an even number of them, where they are all that are made."""
        self.planned += self.most[precision]
        until = self.began + self.seconds * self.planned / sum(self.most.values())
        self.made[precision] = 0
        for number in range(self.most[precision]):
            if number >= self.least[precision] and (self.few or number % 2 == 0) and self.clock() > until:
                return
            self.made[precision] = number + 1
            yield number

    def quantile(self, precision: str) -> float:
        """By how many scales a right computation may be off at most; of a few draws what is sure of it by now."""
        made = self.made[precision]
        return least_of(made, DRAWS[precision]) if self.few else student(made)

    def in_words(self) -> str:
        """Which were fewer than they are elsewhere; empty if none, or if the others are still to come."""
        if self.few:
            return ""
        few = [f"{made} of {DRAWS[name]} {SIZES[name]}" for name, made in self.made.items() if made < DRAWS[name]]
        within = f"only those were made that began within {self.seconds:.0f} s"
        told = f"steps are slow: of the runs with other roundings {within} ({', '.join(few)}), and tolerances are wider"
        return told if few else ""


@cache
def student(degrees: int) -> float:
    """What a Student variable of so many degrees, an even number, exceeds in absolute value with the chance FALSE_ALARM."""
    low, high = 0.0, 1e6
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _beyond(middle, degrees) > FALSE_ALARM else (low, middle)
    return high


def least_of(made: int, planned: int) -> float:
    """The tolerance that all planned draws will give at least, in root mean squares of those that were made."""
    return student(planned) * math.sqrt(made / planned)


def _beyond(value: float, degrees: int) -> float:
    """The chance of a larger absolute value (Abramowitz and Stegun, 26.7.4)."""
    sine = value / math.hypot(value, math.sqrt(degrees))
    term = total = 1.0
    for k in range(1, degrees // 2):
        term *= (2 * k - 1) / (2 * k) * (1 - sine**2)
        total += term
    return 1 - sine * total


def with_branches(fine: Errors, coarse: Errors) -> Errors:
    """The scales of float32, from draws of both roundoffs."""
    linear = ROUNDOFF["coarse"] / ROUNDOFF["fp32"]
    scales = {kind: dict(families) for kind, families in fine.items()}
    for kind, families in coarse.items():
        for name, pair in families.items():
            if max(pair) > BRANCHES * linear * max(fine[kind][name]):
                scales[kind][name] = larger(fine[kind][name], pair)
    return scales


def explained(draws: list[Observed], observed: Observed, lost: set[str], quantile: float) -> Errors:
    """What these draws explain of each family of tensors, without those that are lost. `tolerance` takes MULTIPLE times it."""
    share = quantile / MULTIPLE
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
