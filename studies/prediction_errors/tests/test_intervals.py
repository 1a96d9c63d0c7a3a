"""Intervals of the error, from samples made by hand and from all that there are."""

from __future__ import annotations

import pytest

from framebench.devices.needs import INTERVALS, Kind
from studies.prediction_errors import intervals
from studies.prediction_errors.samples import Sample, read_samples


def make_samples(family: str, *errors: float, kind: Kind = "torch") -> list[Sample]:
    """Return samples of these errors."""
    return [
        Sample(kind, family, "a source", 10_000, round(10_000 * (1 + error))) for error in errors
    ]


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    """Return all samples of both studies."""
    return read_samples()


def test_each_side_covers_nine_of_ten_rows_of_a_family() -> None:
    errors = [share / 100 for share in range(1, 11)]
    interval = intervals.compute_interval(make_samples("one", *errors))
    assert (interval.low, interval.high) == (0.0, 0.09)
    mirrored = intervals.compute_interval(make_samples("one", *(-error for error in errors)))
    assert (mirrored.low, mirrored.high) == (-0.09, 0.0)


def test_a_small_family_that_is_predicted_badly_is_not_averaged_away() -> None:
    good = make_samples("good", *[0.0] * 99)
    interval = intervals.compute_interval(good + make_samples("bad", 0.2))
    assert interval.high == 0.2
    assert interval.families == 2


def test_a_row_with_two_assumptions_counts_once() -> None:
    one = Sample("torch", "family", "a source", 90, 100)
    other = Sample("torch", "family", "a source", 95, 100)
    assert intervals.compute_interval([one, other]).rows == 1


def test_a_left_out_family_is_judged_by_the_others() -> None:
    shown = intervals.tabulate_left_out(make_samples("a", 0.01) + make_samples("b", 0.05, 0.005))
    assert [row[1:] for row in shown.rows] == [
        ("a", "+0.0 % to +5.0 %", "1 of 1", "1 of 1"),
        ("b", "+0.0 % to +1.0 %", "1 of 2", "1 of 2"),
    ]


def test_the_package_states_what_the_rows_say(samples: list[Sample]) -> None:
    assert intervals.compute_intervals(samples) == INTERVALS


def test_every_kind_has_rows_of_several_families(samples: list[Sample]) -> None:
    for kind in INTERVALS:
        assert len({sample.family for sample in intervals.select(samples, kind)}) >= 2, kind


def test_the_three_studies_are_read(samples: list[Sample]) -> None:
    published = {"xMem", "LitGPT resource tables", "torchao", "torchtitan"}
    assert {sample.source for sample in samples} == published | {"H200"}


def test_errors_of_ranks_rest_on_those_of_single_gpus_too() -> None:
    samples = make_samples("one GPU", 0.01)
    samples.append(Sample("torch, ranks", "eight GPUs", "a source", 104, 100))
    of_ranks = intervals.compute_interval(intervals.select(samples, "torch, ranks"))
    assert (round(of_ranks.low, 2), of_ranks.high) == (-0.04, 0.01)
    alone = intervals.compute_interval(intervals.select(samples, "torch"))
    assert (alone.low, alone.high) == (0.0, 0.01)
