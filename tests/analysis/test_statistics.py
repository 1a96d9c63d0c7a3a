"""Verdicts on two arms, and a comparison as a user starts it."""

from __future__ import annotations

import pytest

from framebench.analysis.reports import verdicts
from framebench.records.record import Record
from framebench.suite.case import Case
from tests.handmade import arms, blocks

CASE = Case("transformer", "torch", "train", "fp32", 4, "tiny")
CHANGE = Case("transformer", "torch", "train", "checkpoint", 4, "tiny")
EVEN = [[0.001, 0.0011], [0.0012, 0.0012], [0.001, 0.001]]


def made(factor: float, peak: int = 2**27, instructions: int = 10**6) -> list[Record]:
    """Three blocks in which one arm's steps take so many times as long, give or take a tenth of a per cent."""
    slower = [[s * factor * (1 + 0.001 * (-1) ** i) for s in block] for i, block in enumerate(EVEN)]
    found = blocks([(CASE, EVEN), (CHANGE, slower)], peaks=[2**27, peak], instructions=10**6)
    counts = {"instructions": [instructions] * 2}
    return [r if r.parsed == CASE else r.model_copy(update=counts) for r in found]


def said(found: list[Record]) -> dict[str, str]:
    return {v.quantity: v.verdict for v in verdicts.compare(*arms(found, CASE.id, CHANGE.id))}


def test_a_comparison_says_what_differs() -> None:
    assert said(made(1.2, 2**28, 2 * 10**6)) == {
        "step time": "slower", "peak memory": "more memory", "instructions": "other work"
    }  # fmt: skip
    assert said(made(1.0)) == {"step time": "no difference", "peak memory": "no difference", "instructions": "same work"}


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


def test_cautions() -> None:
    base, change = arms(made(1.0), CASE.id, CHANGE.id)
    assert list(verdicts.list_cautions(base, change, verdicts.compare(base, change))) == []
    apart = [
        r.model_copy(update={"turns": r.turns_taken.model_copy(update={"block": f"apart {i}"})}) for i, r in enumerate(change)
    ]
    (alone,) = verdicts.list_cautions(base, apart, verdicts.compare(base, apart))
    assert "no timed block has both" in alone
    other = [r.model_copy(update={"peaks": {"allocator.in_use": 1} if r.peaks else {}}) for r in change]
    (mixed,) = verdicts.list_cautions(base, other, verdicts.compare(base, other))
    assert "different instruments (allocator.in_use, host.rss)" in mixed
    assert "peak memory" not in {v.quantity for v in verdicts.compare(base, other)}
    (single,) = verdicts.list_cautions(base[:1], change[:1], verdicts.compare(base[:1], change[:1]))
    assert single == "fewer than 3 blocks have no interval"


def test_the_table_shows_instructions_beside_times() -> None:
    shown = verdicts.make_table(*arms(made(2.0, 2**28, 2 * 10**6), CASE.id, CHANGE.id))
    found = {line[0]: line for line in shown.rows}
    assert found["step time"][1:4] == ("1.08 ms", "2.16 ms", "2.001")
    assert found["peak memory"][1:3] == ("128.00 MiB", "256.00 MiB")
    assert found["instructions"][1:3] == ("1.00 million", "2.00 million")
    assert [line[-1] for line in shown.rows] == ["slower", "more memory", "other work"]
