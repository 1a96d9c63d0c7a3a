"""Verdicts on a candidate against its base, from the records of both."""

from __future__ import annotations

import pytest

from framebench.analysis.reports import verdicts
from framebench.records.record import Record
from framebench.suite.case import Case
from tests.fake_records import make_blocks

CASE = Case("transformer", "torch", "train", "fp32", 4, "tiny")
CHANGE = Case("transformer", "torch", "train", "checkpoint", 4, "tiny")
BASE_TIMES = [[0.010, 0.011], [0.012, 0.012], [0.010, 0.010]]  # three blocks of two rounds
EQUAL_TIMES = [[0.01001, 0.01101], [0.01199, 0.01199], [0.01001, 0.01001]]
SLOWER_TIMES = [[0.01201, 0.01321], [0.01439, 0.01439], [0.01201, 0.01201]]  # by a fifth
BASE_PEAK, BASE_INSTRUCTIONS = 2**27, 10**6


def make_sides(
    times: list[list[float]], peak: int, instructions: int
) -> tuple[list[Record], list[Record]]:
    """Return the records of the base, and of a candidate that has these numbers."""
    records = make_blocks([(CASE, BASE_TIMES), (CHANGE, times)], peaks=[BASE_PEAK, peak])
    sides = {CASE: [], CHANGE: []}
    for record in records:
        count = BASE_INSTRUCTIONS if record.parsed == CASE else instructions
        sides[record.parsed].append(record.model_copy(update={"instructions": [count] * 2}))
    return sides[CASE], sides[CHANGE]


@pytest.mark.parametrize(
    ("times", "peak", "instructions", "expected"),
    [
        (SLOWER_TIMES, 2**28, 2 * 10**6, ["slower", "more memory", "other work"]),
        (EQUAL_TIMES, 2**27, 10**6, ["no difference", "no difference", "same work"]),
    ],
    ids=["worse", "equal"],
)
def test_each_quantity_has_a_verdict(
    times: list[list[float]], peak: int, instructions: int, expected: list[str]
) -> None:
    rows = verdicts.compare(*make_sides(times, peak, instructions))
    assert [verdict.quantity for verdict in rows] == ["step time", "peak memory", "instructions"]
    assert [verdict.verdict for verdict in rows] == expected
