"""The largest batch against a line through the smaller ones."""

from __future__ import annotations

import pytest

from framebench.analysis import frames
from framebench.records.record import Record
from framebench.suite.case import Case
from studies.batch_lines.held_out import comparisons, held_out
from tests.fake_records import RIGHT, make_frame, provenance, record

BATCHES = (1, 2, 4, 8, 16)


def made(batch: int, peak: float, framework: str = "torch") -> Record:
    case = Case("transformer", framework, "train", "fp32", batch, "cpu")
    origin = provenance(versions={framework: "1"})
    return record(
        case,
        peaks={"host.rss": int(peak)},
        step_s=[1.0],
        first_step_s=1.0,
        provenance=origin,
        **RIGHT,
    )


def test_the_largest_batch_is_predicted_from_the_smaller() -> None:
    table = make_frame(
        *(made(b, 80e6 + 40e6 * b) for b in BATCHES),
        *(made(b, 1e9 + 1e6 * b * b, "jax") for b in BATCHES),
    )
    found = held_out(table).set_index("framework")
    assert found.loc["torch", "error"] == pytest.approx(0, abs=1e-6)
    assert found.loc["torch", "known"] == (1, 2, 4, 8)
    assert found.loc["jax", "error"] < -0.05
    (comparison,) = comparisons(table)
    assert [row[1] for row in comparison.rows] == ["torch", "jax"]
    assert comparison.rows[0][3:5] == ("1, 2, 4, 8", "16")
    assert "error" in comparison.markdown()


def test_two_batches_hold_nothing_out() -> None:
    table = make_frame(made(4, 1e8), made(8, 2e8))
    assert held_out(table).empty
    assert list(comparisons(table)) == []
    assert list(comparisons(frames.make_frame([]))) == []
