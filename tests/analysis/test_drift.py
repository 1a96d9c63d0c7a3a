"""Step times of equal work: what is set against what, and how far it is apart."""

from __future__ import annotations

from typing import Any

from analysis.studies import drift
from framebench.records.record import Record
from framebench.suite.selectors import parse
from tests.handmade import provenance, record


def at(hour: int, step: float, strategy: str = "fp32", session: str = "", **changes: Any) -> Record:
    origin = provenance(
        measured_at=f"2026-06-01T{hour:02}:00:00Z", session=session or str(hour), versions={"torch": "1"}, **changes
    )
    return record(parse(f"transformer/torch/train/{strategy}/b4/tiny"), step_s=[step], provenance=origin)


def test_equal_work_is_compared_by_the_hours_between() -> None:
    found = [at(0, 1.0), at(0, 1.1, "gc_off"), at(4, 1.5, "gc_frozen")]
    rows = {row[1]: row[2:] for row in drift.comparison(found).rows}
    assert rows["under 1"] == ("1", "10%", "10%", "10%")
    assert rows["3 and more"][0] == "2"
    assert rows["3 and more"][2:] == ("49%", "50%"), "1.5 over 1.1 and over 1.0"


def test_what_is_not_equal_is_not_compared() -> None:
    others = (
        at(0, 9.0, "checkpoint"),  # another strategy
        at(0, 9.0, machine="other"),
        at(0, 9.0, protocol=9),
        at(0, 9.0, hardware={"device": "NVIDIA H200"}),
        at(0, 9.0, session="1"),  # the same case in the same session: rounds of a comparison
    )
    assert list(drift.pairs([at(1, 1.0), *others])) == []
