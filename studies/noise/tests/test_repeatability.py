"""The same ratio in two sessions: which sessions count, and whether their intervals overlap."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from framebench.records.record import Record
from framebench.suite.case import Case
from studies.noise.repeatability import comparison, find_repeated
from tests.fake_records import make_blocks

MORNING = datetime(2026, 11, 22, 8, tzinfo=UTC)
CASES = (("torch", "fp32"), ("torch", "checkpoint"), ("jax", "fp32"))
BASE, CHANGE, JAX = (
    Case("transformer", framework, "train", strategy, 4, "cpu") for framework, strategy in CASES
)


def session(
    name: str, hours: float, ratio: float, blocks_of_it: int = 3, change: Case = CHANGE
) -> list[Record]:
    """Blocks whose ratios stray by half a per cent."""
    strays = [1.0, 1.005, 0.995, 1.0, 1.005][:blocks_of_it]
    variants = [(BASE, [[1.0] * 5] * blocks_of_it), (change, [[ratio * s] * 5 for s in strays])]
    return make_blocks(variants, session=name, measured_at=MORNING + timedelta(hours=hours))


def test_the_first_and_the_last_session_are_compared() -> None:
    found = [*session("a", 0, 1.20), *session("b", 2, 1.50), *session("c", 4, 1.203)]
    (one,) = find_repeated(found)
    assert (one.case.id, one.base.id, one.first.blocks, one.last.blocks) == (
        CHANGE.id,
        BASE.id,
        3,
        3,
    )
    assert (one.first_begin, one.last_begin) == (MORNING, MORNING + timedelta(hours=4))
    assert one.overlaps
    assert [row[-1] for row in comparison(found).rows] == ["yes"]
    assert (
        "1 of 1 ratios of strategies and 0 of 0 ratios of frameworks" in comparison(found).caption
    )


def test_what_came_out_otherwise_says_no() -> None:
    assert [
        row[-1] for row in comparison([*session("a", 0, 1.20), *session("b", 2, 1.30)]).rows
    ] == ["NO"]


def test_a_session_of_two_blocks_or_within_the_hour_does_not_count() -> None:
    assert find_repeated([*session("a", 0, 1.20), *session("b", 2, 1.20, blocks_of_it=2)]) == []
    assert find_repeated([*session("a", 0, 1.20), *session("b", 0.5, 1.20)]) == []
    assert find_repeated(session("a", 0, 1.20)) == []


def test_frameworks_are_compared_by_their_baselines() -> None:
    (one,) = find_repeated([*session("a", 0, 2.0, change=JAX), *session("b", 2, 2.0, change=JAX)])
    assert (one.is_of_frameworks, one.case.id, one.base.id) == (True, JAX.id, BASE.id)
