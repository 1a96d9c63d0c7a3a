"""The one rule that turns a measured effect into a verdict. docs/claims.md tells it in words.

Every effect is a number with a 95 % interval. A claim says from which value ("no effect": 1 for a ratio, 0 for a difference)
the number departs, in which direction, perhaps how far, and what the smallest departure is that matters. Along the claimed
direction, the departure is the *gain*, and then, in this order:

- **contradicted**: the whole interval of the gain lies below minus the smallest that matters: the opposite effect.
- **no effect worth having**: it lies at or below the smallest that matters.
- **weaker**: a size was claimed, and the interval lies wholly below it less a fifth.
- **stronger**: it lies wholly above the claimed size and a fifth, unless the claim says "or more".
- **reproduced**: it lies wholly within a fifth of the claimed size; or above the smallest that matters, where none was claimed.
- **undecided**: it lies across one of these limits.

So an interval that contains "no effect" never reproduces anything, and a larger gain never gets a lesser verdict. A claim of
equality ("the same loss") is one of an error below a limit: its "no effect" is the limit, its direction down. A claim that
something happens at all ("> 0 nodes") has its "no effect" at one half, between none and one.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple

Verdict = Literal[
    "reproduced", "weaker", "stronger", "contradicted", "undecided", "no effect worth having", "by definition", "needs a GPU",
    "no such API", "not measured",
]  # fmt: skip
# those that a measurement decides, in the order of a growing gain
DECIDED: tuple[Verdict, ...] = ("contradicted", "no effect worth having", "weaker", "reproduced", "stronger")
FAILED = DECIDED[:3]  # what was measured and is less than claimed
MEASURED: tuple[Verdict, ...] = (*DECIDED, "undecided")
TOLERANCE = 0.2  # of the claimed gain: what "as large as claimed" allows either way


class Effect(NamedTuple):
    """A measured number and its 95 % interval, in the unit of its measure; of no interval `low` and `high` are infinite."""

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
    or_more: bool = False  # the claimed size is a least one

    def gain(self, effect: float) -> float:
        """How far an effect departs from `null` in the claimed direction."""
        return self.direction * (effect - self.null)

    @property
    def claimed(self) -> float | None:
        return None if self.value is None else self.gain(self.value)


def decide(effect: Effect, target: Target) -> Verdict:
    """The verdict on one effect. Raises ValueError for an interval that is none."""
    if not effect.low <= effect.value <= effect.high or not math.isfinite(effect.value):
        raise ValueError(f"no interval: {effect}")
    low, high = sorted((target.gain(effect.low), target.gain(effect.high)))
    if high < -target.minimum:
        return "contradicted"
    if high <= target.minimum:
        return "no effect worth having"
    if target.claimed is not None:
        return _sized(low, high, target.claimed, target.or_more)
    return "reproduced" if low > target.minimum else "undecided"


def _sized(low: float, high: float, claimed: float, or_more: bool) -> Verdict:
    """The verdict on a gain that is worth having, where the claim names its size."""
    least, most = (1 - TOLERANCE) * claimed, (1 + TOLERANCE) * claimed
    if high < least:
        return "weaker"
    if low > most and not or_more:
        return "stronger"
    return "reproduced" if low >= least and (high <= most or or_more) else "undecided"


def summary(verdicts: Collection[Verdict]) -> Verdict:
    """The verdict on a claim from those on its arms, of which those without a measurement do not count.

    Where more arms are undecided than decided, the claim is; else the decided ones speak. What all of them say is said of the
    claim; reproduced and stronger together are reproduced; where no arm shows the effect and one shows the opposite, it is
    contradicted. Any other mixture is weaker: the claim holds in part. Without a measured arm: whether a GPU was missing, or
    only records.
    """
    decided_verdicts = [v for v in verdicts if v in DECIDED]
    if verdicts and len(decided_verdicts) < sum(v == "undecided" for v in verdicts):
        return "undecided"
    if not decided_verdicts:
        return "needs a GPU" if verdicts and set(verdicts) == {"needs a GPU"} else "not measured"
    if len(kinds := set(decided_verdicts)) == 1:
        return decided_verdicts[0]
    if kinds == {"reproduced", "stronger"}:
        return "reproduced"
    return "contradicted" if kinds == {"contradicted", "no effect worth having"} else "weaker"
