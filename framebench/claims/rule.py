"""The one rule that turns measured effects into a verdict. docs/claims.md tells it in words.

Every effect is a number with an interval. A claim says from which value ("no effect": 1 for a
ratio, 0 for a difference) the number departs, in which direction, perhaps how far, and what the
smallest departure is that matters. Along the claimed direction, the departure is the *gain*, and
then, in this order:

- **opposite**: the whole interval of the gain lies below minus the smallest that matters.
- **no effect**: it lies at or below the smallest that matters.
- **smaller or none**: a size is stated; the interval lies wholly below that size less a fifth, and
  part of it is no effect or the opposite.
- **smaller than claimed**: a size is stated; the interval lies above the smallest that matters, and
  wholly below that size less a fifth.
- **larger than claimed**: it lies wholly above the stated size and a fifth.
- **confirmed**: it lies wholly within a fifth of the stated size; or above the smallest that
  matters, where none is stated.
- **undecided**: it lies across one of these limits. `list_open_verdicts` tells between which.

A size "or more" has no fifth: it is confirmed from the size on, and nothing is larger than it. A
size of our own (`ours`) is shown and never judged by: only the direction is. An interval that
contains "no effect" never confirms anything, and a larger gain never gets a lesser verdict. A
claim of equality ("the same loss") is one of an error below a limit: its "no effect" is the limit,
its direction down. A claim that something happens at all ("a graph") is one of a count of one or
more; one that it never happens is contradicted by a count of one.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Verdict = Literal[
    "confirmed",
    "smaller than claimed",
    "larger than claimed",
    "opposite",
    "no effect",
    "smaller or none",
    "no effect or opposite",
    "mixed",
    "undecided",
    "by definition",
    "not testable here",
    "listing does not run",
    "no such API",
    "not measured",
]
# those that a measurement decides, in the order of a growing gain
DECIDED: tuple[Verdict, ...] = (
    "opposite",
    "no effect",
    "smaller or none",
    "smaller than claimed",
    "confirmed",
    "larger than claimed",
)
FAILED = DECIDED[:4]  # what was measured and is less than claimed
MEASURED: tuple[Verdict, ...] = (*DECIDED, "no effect or opposite", "mixed", "undecided")
DISAGREE: tuple[Verdict, ...] = ("mixed", "no effect or opposite")
UNMET: Verdict = "not testable here"
NOT_MEASURED: Verdict = "not measured"
DOES_NOT_RUN: Verdict = "listing does not run"
TOLERANCE = 0.2  # of the claimed gain: what "as large as claimed" allows either way
Sign = Literal["less", "more", "none", "unclear"]


class NoNumber(Exception):
    """The results do not hold the number that a measurement needs; the message says which."""


class Effect(NamedTuple):
    """A measured number and its interval, in the unit of its measure.

    Without an interval `low` and `high` are infinite.
    """

    value: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> Effect:
        """Return the effect of a number without an error."""
        return cls(value=value, low=value, high=value)

    @classmethod
    def without_interval(cls, value: float) -> Effect:
        """Return the effect of a number whose error is unknown."""
        return cls(value=value, low=-math.inf, high=math.inf)

    @classmethod
    def of_counts(cls, values: Sequence[float]) -> Effect:
        """Return the median of numbers without an error, from the smallest to the largest."""
        return cls(value=statistics.median(values), low=min(values), high=max(values))


@dataclass(frozen=True)
class Target:
    """The effect that a claim states. `value` is missing if it states only a direction."""

    direction: Literal[-1, 1]
    null: float = 1.0  # the value that means "no effect"
    minimum: float = 0.0  # the least departure from it that matters
    value: float | None = None
    or_more: bool = False  # the claimed size is a least one
    ours: bool = False  # no article states the size: it is shown, and not judged by

    def gain(self, effect: float) -> float:
        """Return how far an effect departs from `null` in the claimed direction."""
        return self.direction * (effect - self.null)

    @property
    def claimed(self) -> float | None:
        """Return the gain that an article states, or None if it states none."""
        if self.value is None or self.ours:
            return None
        return self.gain(self.value)


def classify(gain: float, target: Target) -> Verdict:
    """Return the verdict on a gain that is known exactly."""
    if gain < -target.minimum:
        return "opposite"
    if gain <= target.minimum:
        return "no effect"
    if target.claimed is None:
        return "confirmed"
    tolerance = 0.0 if target.or_more else TOLERANCE
    if gain < (1 - tolerance) * target.claimed:
        return "smaller than claimed"
    if target.or_more or gain <= (1 + tolerance) * target.claimed:
        return "confirmed"
    return "larger than claimed"


def list_open_verdicts(effect: Effect, target: Target) -> tuple[Verdict, ...]:
    """Return the verdicts that the numbers of an interval would get, in the order of the gain.

    Without an interval the tuple is empty.
    """
    if not (math.isfinite(effect.low) and math.isfinite(effect.high)):
        return ()
    # the verdicts at both ends, and all between them in the order of the gain
    places = []
    for end in (effect.low, effect.high):
        verdict = classify(target.gain(end), target)
        places.append(DECIDED.index(verdict))
    between = DECIDED[min(places) : max(places) + 1]
    left_out = {"smaller or none"}  # a verdict on intervals: a single number is one or the other
    if target.claimed is None:
        left_out |= {"smaller than claimed", "larger than claimed"}
    return tuple(verdict for verdict in between if verdict not in left_out)


def decide(effect: Effect, target: Target) -> Verdict:
    """Return the verdict on one effect. Raises ValueError unless low <= value <= high."""
    if not effect.low <= effect.value <= effect.high or not math.isfinite(effect.value):
        raise ValueError(f"no interval: {effect}")
    possible = list_open_verdicts(effect, target)
    if len(possible) == 1:
        return possible[0]
    if not possible or not set(possible) <= set(FAILED):
        return "undecided"
    if "smaller than claimed" in possible:
        return "smaller or none"
    return "no effect"  # or the opposite, which is none either


def find_sign(effect: Effect, target: Target) -> Sign:
    """Return on which side of "no effect" the number lies for certain, whatever was claimed."""
    least, most = target.null - target.minimum, target.null + target.minimum
    if effect.high < least:
        return "less"
    if effect.low > most:
        return "more"
    if least <= effect.low and effect.high <= most:
        return "none"
    return "unclear"


def summarize(verdicts: Collection[Verdict], may: bool = False) -> Verdict:
    """Return the verdict on a claim from those on its deciding measurements.

    Measurements whose precondition is not met do not count; if no precondition is met, the claim
    is not testable here. If no listing of those that count runs, the claim says so. A measurement
    that is smaller or none agrees with every other that is less than claimed: if those others say a
    single thing, they count as smaller or none, too. Then, the first that applies:

    - A claim that something `may` be is confirmed by one measurement that shows it.
    - Decided measurements disagree: the claim is no effect or opposite if each shows no effect or
      the opposite, and otherwise mixed.
    - At least as many are undecided or missing as are decided: the claim is undecided, or not
      measured if nothing was.
    - What all decided measurements say is said of the claim.
    """
    counted = [verdict for verdict in verdicts if verdict != UNMET]
    if verdicts and not counted:
        return UNMET
    if counted and set(counted) == {DOES_NOT_RUN}:
        return DOES_NOT_RUN
    decided = [verdict for verdict in counted if verdict in DECIDED]
    different = set(decided)
    if may and different & {"confirmed", "larger than claimed"}:
        return "confirmed"
    if "smaller or none" in different and different <= set(FAILED):
        others = different - {"smaller or none"}
        # it agrees with any single one of the others
        different = others if len(others) > 1 else {"smaller or none"}
    if different == {"opposite", "no effect"}:
        return "no effect or opposite"
    if len(different) > 1:
        return "mixed"
    if 2 * len(decided) > len(counted):
        return different.pop()
    if decided or "undecided" in counted:
        return "undecided"
    return NOT_MEASURED
