"""The one rule that turns a measured effect into a verdict. docs/claims.md tells it in words.

Every effect is a number with a 95 % interval. A claim says from which value ("no effect": 1 for a ratio, 0 for a difference
or a count) the number departs, in which direction, perhaps how far, and what the smallest departure is that matters. Along the
claimed direction, the departure is the *gain*, and then, in this order:

- **contradicted**: the whole interval of the gain lies at or below the smallest that matters: no effect, or the opposite one.
- **weaker**: the interval contains such "no effect", or lies wholly below the claimed gain less a fifth.
- **stronger**: it lies wholly above the claimed gain and a fifth.
- **reproduced**: an effect that excludes "no effect", and as large as claimed, within a fifth; or in the claimed direction,
  where no size was claimed.

So an interval that contains "no effect" never reproduces anything, and a larger gain never gets a lesser verdict. A claim of
equality ("the same loss") is one of an error below a limit: its "no effect" is the limit, its direction down.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple

Verdict = Literal[
    "reproduced", "weaker", "stronger", "contradicted", "no such API", "needs a GPU (not measured here)", "not measured"
]
MEASURED: tuple[Verdict, ...] = ("contradicted", "weaker", "reproduced", "stronger")  # in the order of a growing gain
FAILED = MEASURED[:2]  # what was measured and is less than claimed
TOLERANCE = 0.2  # of the claimed gain: what "as large as claimed" allows either way


class Effect(NamedTuple):
    """A measured number and its 95 % interval, in the unit of its measure."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Target:
    """What a claim says about an effect. `value` is missing where it names a direction only."""

    direction: Literal[-1, 1]
    null: float = 1.0  # the effect's value if there is none
    minimum: float = 0.0  # the least departure from it that matters
    value: float | None = None

    def gain(self, effect: float) -> float:
        """How far an effect departs from `null` in the claimed direction."""
        return self.direction * (effect - self.null)

    @property
    def claimed(self) -> float | None:
        return None if self.value is None else self.gain(self.value)


def decide(effect: Effect, target: Target) -> Verdict:
    """The verdict on one effect. Raises ValueError for an interval that is none."""
    if not effect.low <= effect.high or not math.isfinite(effect.value):
        raise ValueError(f"no interval: {effect}")
    low, high = sorted((target.gain(effect.low), target.gain(effect.high)))
    claimed = target.claimed
    if high <= target.minimum:
        return "contradicted"
    if low <= target.minimum or (claimed is not None and high < (1 - TOLERANCE) * claimed):
        return "weaker"
    if claimed is not None and low > (1 + TOLERANCE) * claimed:
        return "stronger"
    return "reproduced"


def summary(verdicts: Collection[Verdict]) -> Verdict:
    """The verdict on a claim from those on its arms, of which those without a measurement do not count.

    What all arms say is said of the claim; reproduced and stronger together are reproduced. Any other mixture is weaker: the
    claim holds in part. Without a measured arm: whether a GPU was missing, or only records.
    """
    found = {v for v in verdicts if v in MEASURED}
    if not found:
        gpu: Verdict = "needs a GPU (not measured here)"
        return gpu if verdicts and set(verdicts) == {gpu} else "not measured"
    if len(found) == 1:
        return found.pop()
    return "reproduced" if found == {"reproduced", "stronger"} else "weaker"
