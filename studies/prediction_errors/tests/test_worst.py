"""Which rows were predicted worst, and which causes a number shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from framebench.devices.needs import Kind
from studies.prediction_errors import worst
from studies.prediction_errors.samples import Sample
from studies.published_peaks import programs
from studies.published_peaks.errors import Held
from studies.published_peaks.rows import DATA, XMEM
from studies.published_peaks.rows import read as read_rows

MIB = 2**20


def make_sample(row: str, error: float, kind: Kind = "jax") -> Sample:
    """Return a sample of 10,000 bytes."""
    measured = round(10_000 * (1 + error))
    return Sample(kind, "family", "a source", row, "32 bits", 10_000, measured)


def test_the_worst_tenth_counts_each_row_once_with_its_worst_assumption():
    samples = [make_sample(f"row {number}", 0.01 * number) for number in range(20)]
    samples.append(make_sample("row 3", -0.5))
    assert [sample.row for sample in worst.find_worst(samples)] == ["row 3", "row 19"]
    assert worst.find_worst(samples)[0].error == -0.5


@pytest.mark.parametrize(
    ("predicted", "again", "weights", "cause"),
    [
        (800, 810, 10, "run again below a limit it took 810.0"),
        (800, 990, 10, worst.UNEXPLAINED),
        (800, None, 10, worst.UNEXPLAINED),
        (1100, 990, 100, "may hold the weights, 100.0"),
        (1100, 990, 90, worst.UNEXPLAINED),
    ],
)
def test_a_published_row_has_a_cause_where_a_number_shows_it(predicted, again, weights, cause):
    row = next(row for row in read_rows(DATA) if row.source == XMEM)
    note = f"estimate: {again * MIB} B" if again else ""
    compared = Held(
        replace(row, bytes=1000 * MIB, note=note),
        programs.program(row),
        predicted * MIB,
        weights_bytes=weights * MIB,
    )
    assert cause in worst.explain_published(compared)


def test_workspaces_explain_an_error_that_is_smaller_with_them():
    without = make_sample("a case", 0.3, "torch, convolutions without workspaces")
    better = make_sample("a case", 0.02, "torch, convolutions")
    worse = make_sample("a case", 0.4, "torch, convolutions")
    elsewhere = make_sample("another case", 0.0, "torch, convolutions")
    assert "+2.0%" in worst.explain_own(without, [without, elsewhere, better], {})
    assert worst.explain_own(without, [without, elsewhere, worse], {}) == worst.UNEXPLAINED


def test_autotuning_explains_an_error_that_is_gone_without_it():
    sample = make_sample("resnet50/jax/train/fp32/b64/full", 0.08)
    assert "+0.5%" in worst.explain_own(sample, [], {sample.row: 10_050})
    assert worst.explain_own(sample, [], {}) == worst.UNEXPLAINED
