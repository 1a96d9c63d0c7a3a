"""Verdicts on a candidate against its base, from the records of both."""

from __future__ import annotations

import pytest

from framebench.analysis.reports import verdicts
from framebench.records.record import Record
from framebench.suite.case import Case
from tests.fake_records import blocks, select_sides

CASE = Case("transformer", "torch", "train", "fp32", 4, "tiny")
CHANGE = Case("transformer", "torch", "train", "checkpoint", 4, "tiny")
BASE_TIMES = [[0.001, 0.0011], [0.0012, 0.0012], [0.001, 0.001]]
Sides = tuple[list[Record], list[Record]]


def scale_times(factor: float) -> list[list[float]]:
    """Return BASE_TIMES times a factor, give or take a tenth of a per cent from block to block."""
    factors = (factor * 1.001, factor * 0.999, factor * 1.001)
    return [[s * each for s in block] for each, block in zip(factors, BASE_TIMES)]


def measure(factor: float, peak: int = 2**27, instructions: int = 10**6) -> Sides:
    """Return the records of three blocks in which a candidate's steps take `factor` times as long.

    Of the base the peak is 2**27 bytes, and a step makes 10**6 instructions.
    """
    variants = [(CASE, BASE_TIMES), (CHANGE, scale_times(factor))]
    base, change = select_sides(
        blocks(variants, peaks=[2**27, peak], instructions=10**6), CASE.id, CHANGE.id
    )
    counts = {"instructions": [instructions] * 2}
    return base, [record.model_copy(update=counts) for record in change]


@pytest.mark.parametrize(
    ("sides", "expected"),
    [
        (measure(1.2, 2**28, 2 * 10**6), ["slower", "more memory", "other work"]),
        (measure(1.0), ["no difference", "no difference", "same work"]),
    ],
    ids=["worse", "equal"],
)
def test_each_quantity_has_a_verdict(sides: Sides, expected: list[str]) -> None:
    found = verdicts.compare(*sides)
    assert [verdict.quantity for verdict in found] == ["step time", "peak memory", "instructions"]
    assert [verdict.verdict for verdict in found] == expected


def test_swapping_the_sides_inverts_the_verdicts() -> None:
    base, change = measure(1.2, 2**28)
    verdicts_forth = verdicts.compare(base, change)[:2]
    verdicts_back = verdicts.compare(change, base)[:2]
    assert [verdict.verdict for verdict in verdicts_back] == ["faster", "less memory"]
    for forth, back in zip(verdicts_forth, verdicts_back):
        assert forth.high is not None
        assert back.ratio == pytest.approx(1 / forth.ratio)
        assert back.low == pytest.approx(1 / forth.high)
