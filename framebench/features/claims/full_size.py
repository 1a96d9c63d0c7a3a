"""What a claim would say at size `full`, where activations dominate: ratios of the lower bounds that `framebench predict`
gives. Nothing is measured there, and nothing is decided by it."""

from __future__ import annotations

from functools import cache

from framebench.analysis.lower_bound import lower_bound
from framebench.features.claims.claim import Arm, Claim
from framebench.features.claims.measures import Ratio
from framebench.features.claims.samples import PEAK
from framebench.suite.case import Case

SIZE = "full"


def predicted(claim: Claim, size: str) -> tuple[float, float] | None:
    """Peak by its base, the least and the largest of the deciding arms; None where there is none at this size that the lower
    bound can tell apart, or where this is the size."""
    ratios = [ratio for arm in claim.arms if (ratio := _of_arm(arm)) is not None]
    return (min(ratios), max(ratios)) if ratios and size != SIZE else None


def _of_arm(arm: Arm) -> float | None:
    if not isinstance(arm.measure, Ratio) or arm.measure.quantity is not PEAK:
        return None
    cases = arm.measure.cases(SIZE)
    base, change = map(total, cases) if cases and all(case.spec.layers for case in cases) else (0, 0)
    return change / base if change != base else None


@cache
def total(case: Case) -> int:
    return lower_bound(case).total


def said(ends: tuple[float, float] | None) -> str:
    """`; at full size, predicted: -62.9 to -49.1 %`; empty without a prediction."""
    if ends is None:
        return ""
    return f"; at full size, predicted: {' to '.join(dict.fromkeys(f'{100 * (end - 1):+.1f}' for end in ends))} %"
