"""The table of other people's models says which peaks are apart, and by how much."""

from __future__ import annotations

from typing import Any

from studies.foreign_models.tables import RIGHT, UNPROVEN, UNSUPPORTED, foreign

ROW: dict[str, Any] = {
    "model": "one",
    "scenario": "train",
    "what": "A model.",
    "batch": 4,
    "measured_at": "2026-11-26T12:00:00+00:00",
    "commit": "a" * 40,
    "machine": "here",
    "packages": {"torch": "2", "theirs": "1.0"},
    "plain": 100 * 2**20,
    "peak": 101 * 2**20,
    "verdicts": {},
}


def test_a_peak_that_is_apart_counts_as_none_that_agrees() -> None:
    rows = [
        ROW,
        ROW
        | {
            "model": "two",
            "peak": 92 * 2**20,
            "verdicts": {"fp32": RIGHT, "keep": UNPROVEN, "out": UNSUPPORTED, "amp": "wrong: far"},
        },
        ROW | {"model": "three", "failed": "it fell"},
    ]
    assert "that compile nothing; left out" in foreign(rows).caption
    rows[1]["compiled"] = {"commit": None}
    table = foreign(rows)
    assert "that compile nothing, and of 1 models those that compile; left out" in table.caption
    assert "3 models" in table.caption
    assert "1 of 2 agree to 3%; the widest is 8.0% apart" in table.caption
    text = table.markdown()
    assert "1 of 3 verdicts on 1 models are wrong or none" in table.caption
    assert "| 101.0 | 100.0 | +1.0% | not tried | - | - | - | - | theirs 1.0 |" in text
    assert "| 92.0 | 100.0 | -8.0% | 3 | 1 | 1 | 1 | amp: wrong: far | theirs 1.0 |" in text
    assert "| - | - | - | - | - | - | - | - | it fell |" in text
