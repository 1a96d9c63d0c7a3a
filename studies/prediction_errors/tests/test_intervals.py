"""Intervals of the error, from samples made by hand and from all that there are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from framebench.devices.needs import INTERVALS, STEPS, Kind
from studies.prediction_errors import intervals
from studies.prediction_errors.samples import Sample, read_samples


def make_samples(
    family: str, *errors: float, kind: Kind = "torch", source: str = "a source"
) -> list[Sample]:
    """Return samples of these errors, each of a row of its own."""
    samples = []
    for number, error in enumerate(errors):
        row = f"{family} {number}"
        measured = round(10_000 * (1 + error))
        samples.append(Sample(kind, family, source, row, "32 bits", 10_000, measured))
    return samples


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
    (one,) = make_samples("family", 0.05)
    other = replace(one, predicted=9_500)
    assert intervals.compute_interval([one, other]).rows == 1


def test_two_rows_of_the_same_peak_count_twice() -> None:
    assert intervals.compute_interval(make_samples("family", 0.05, 0.05)).rows == 2


@pytest.mark.parametrize(("rows", "is_judged"), [(0, False), (4, False), (5, True)])
def test_few_rows_judge_no_error(rows: int, is_judged: bool) -> None:
    """Their worst is allowed for all the same, and no other kind's interval is taken."""
    samples = make_samples("family", *[0.01 * row for row in range(rows)], kind="torch, compiled")
    others = make_samples("another", *[0.2] * 9)
    chosen = intervals.select(samples + others, "torch, compiled")
    interval = intervals.compute_interval(chosen)
    assert interval.rows == rows
    assert interval.is_judged is is_judged
    assert (interval.median is not None, interval.ninth is not None) == (is_judged, is_judged)
    assert interval.high == pytest.approx(max(0.0, 0.01 * (rows - 1)))
    assert (f"not judged: {rows} rows" in interval.describe()) is not is_judged


def test_rows_are_counted_by_what_was_trained() -> None:
    one, two, other = make_samples("family", 0.0, 0.0, 0.0)
    other = replace(other, step="16 bits, recomputed")
    interval = intervals.compute_interval([one, two, other])
    assert {step: count for step, count in interval.steps.items() if count} == {
        "32 bits": 2,
        "16 bits, recomputed": 1,
    }


def test_a_left_out_family_is_judged_by_the_others() -> None:
    samples = make_samples("a", 0.01) + make_samples("b", 0.05, 0.005)
    shown = intervals.tabulate_left_out(samples, "family")
    assert [row[1:] for row in shown.rows] == [
        ("a", "+0.0 % to +5.0 %", "1 of 1", "1 of 1"),
        ("b", "+0.0 % to +1.0 %", "1 of 2", "1 of 2"),
    ]


def test_a_left_out_source_is_judged_by_all_families_of_the_others() -> None:
    samples = make_samples("a", 0.01, source="one") + make_samples("b", 0.02, source="one")
    samples += make_samples("c", 0.05, source="another")
    shown = intervals.tabulate_left_out(samples, "source")
    assert [row[1:] for row in shown.rows] == [
        ("another", "+0.0 % to +2.0 %", "0 of 1", "0 of 1"),
        ("one", "+0.0 % to +5.0 %", "2 of 2", "2 of 2"),
    ]


def test_the_package_states_what_the_rows_say(samples: list[Sample]) -> None:
    assert intervals.compute_intervals(samples) == INTERVALS


def test_the_four_studies_are_read(samples: list[Sample]) -> None:
    published = {"xMem", "LitGPT resource tables", "MMAction2 model zoo", "torchao", "torchtitan"}
    assert {sample.source for sample in samples} == published | {"H200"}
    assert {sample.kind for sample in samples} >= {"torch, compiled", "torch, ranks", "jax"}


def test_each_row_is_of_a_step_that_the_package_names(samples: list[Sample]) -> None:
    assert {sample.step for sample in samples} <= set(STEPS)


def test_a_step_without_convolutions_is_judged_by_all_eager_ones_of_one_gpu() -> None:
    samples = make_samples("texts", 0.01, kind="torch, padded texts")
    samples += make_samples("adapters", 0.02, kind="torch, frozen weights")
    samples += make_samples("ranks", 0.03, kind="torch, ranks")
    chosen = intervals.select(samples, "torch")
    assert {sample.family for sample in chosen} == {"texts", "adapters"}
