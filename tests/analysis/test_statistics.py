"""Verdicts on two arms, and a comparison as a user starts it."""

from __future__ import annotations

import pytest

from framebench.analysis.reports import verdicts
from framebench.records.record import Record
from framebench.suite.case import Case
from tests.fake_records import arms, blocks

CASE = Case("transformer", "torch", "train", "fp32", 4, "tiny")
CHANGE = Case("transformer", "torch", "train", "checkpoint", 4, "tiny")
EVEN = [[0.001, 0.0011], [0.0012, 0.0012], [0.001, 0.001]]


def made(factor: float, peak: int = 2**27, instructions: int = 10**6) -> list[Record]:
    """Three blocks in which one arm's steps take so many times as long, give or take a tenth of a
    per cent.
    """
    slower = [[s * factor * (1 + 0.001 * (-1) ** i) for s in block] for i, block in enumerate(EVEN)]
    found = blocks([(CASE, EVEN), (CHANGE, slower)], peaks=[2**27, peak], instructions=10**6)
    counts = {"instructions": [instructions] * 2}
    return [r if r.parsed == CASE else r.model_copy(update=counts) for r in found]


def said(found: list[Record]) -> dict[str, str]:
    return {v.quantity: v.verdict for v in verdicts.compare(*arms(found, CASE.id, CHANGE.id))}


def test_a_comparison_says_what_differs() -> None:
    assert said(made(1.2, 2**28, 2 * 10**6)) == {
        "step time": "slower",
        "peak memory": "more memory",
        "instructions": "other work",
    }
    assert said(made(1.0)) == {
        "step time": "no difference",
        "peak memory": "no difference",
        "instructions": "same work",
    }


def test_swapped_arms_turn_the_verdict() -> None:
    base, change = arms(made(1.2, 2**28), CASE.id, CHANGE.id)
    forth, back = (verdicts.compare(*pair)[:2] for pair in ((base, change), (change, base)))
    assert [v.verdict for v in back] == ["faster", "less memory"]
    for one, other in zip(forth, back):
        assert other.ratio == pytest.approx(1 / one.ratio)
        assert other.low == pytest.approx(1 / (one.high or 0))


def test_a_case_against_itself_is_compared_by_its_processes() -> None:
    found = blocks([(CASE, EVEN), (CASE, [[s * 1.3 for s in block] for block in EVEN])])
    base, change = arms(found, CASE.id, CASE.id)
    (time,) = verdicts.compare(base, change)
    assert (time.verdict, round(time.ratio, 6), time.blocks) == ("slower", 1.3, 3)
