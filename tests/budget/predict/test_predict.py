"""Predictions: a line finds what made the data, its interval covers, and fake tensors predict what
is then measured.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from framebench.analysis.lower_bound import compute_lower_bound
from framebench.analysis.peaks import find_peak
from framebench.analysis.predict import TooFew, fit_line
from framebench.analysis.results import NoRecords, Results
from framebench.analysis.searches import Searches
from framebench.budget.predict.command import predict_from_rows
from framebench.records.record import Record
from framebench.suite.case import Case, UnknownCase
from framebench.suite.hypothetical import explain_unpredictable, parse_any_batch
from framebench.suite.result import Verification
from tests.advice_records import make_record, make_rows, measure_batches
from tests.marks import needs_host_peak, rarely
from tests.processes import framebench, read_json
from tests.suite.chosen_cases import choose_fewest, list_supported

pytestmark = pytest.mark.usefixtures("imported_once")

BATCHES = (1, 2, 4, 8, 16)


@settings(deadline=None)  # the first line imports scipy
@given(
    st.integers(0, 2**40),
    st.integers(1, 2**30),
    st.lists(st.integers(1, 512), min_size=3, max_size=6, unique=True),
)
def test_a_line_is_found_exactly(fixed, per_sample, batches):
    peaks = [fixed + per_sample * batch for batch in batches]
    line = fit_line(batches, peaks)
    expected = fixed + per_sample * 1024
    assert line.predict(1024).value == pytest.approx(expected, rel=1e-6)
    assert line.fixed == pytest.approx(fixed, abs=1e-6 * expected)


def test_two_batches_have_no_interval_and_one_no_line():
    line = fit_line([4, 8], [100.0, 180.0])
    assert (line.fixed, line.per_sample) == (20, 20)
    assert line.predict(16) == (340, None, None)
    with pytest.raises(TooFew, match="there are: 4"):
        fit_line([4, 4], [100.0, 101.0])


def test_the_interval_covers_as_often_as_it_says():
    noise = np.random.default_rng(0)
    covered = 0
    for _ in range(1000):
        *known, new = 100 + 10 * np.array([*BATCHES, 32]) + noise.normal(0, 5, len(BATCHES) + 1)
        _, low, high = fit_line(BATCHES, known).predict(32)
        covered += low <= new <= high
    assert 930 <= covered <= 970


def test_the_line_is_that_of_scipy():
    """scipy's own regression is an independent implementation."""
    peaks = [11.0, 19.0, 43.0, 78.0, 166.0]
    far = 10**9  # so far from all batches that only the slope's error counts
    line = fit_line(BATCHES, peaks)
    expected = stats.linregress(BATCHES, peaks)
    quantile = stats.t.ppf(0.975, len(peaks) - 2)

    value, low, high = line.predict(far)

    assert line.fixed == pytest.approx(expected.intercept)
    assert line.per_sample == pytest.approx(expected.slope)
    half = quantile * expected.stderr * far
    assert (low, high) == pytest.approx((value - half, value + half))


def test_lines_do_not_mix_frameworks_and_versions():
    old = {"versions": {"torch": "0"}, "measured_at": "2025-01-01T00:00:00Z"}
    records = [
        make_record("torch", "fp32", batch=4, peak=10**9),
        make_record("torch", "fp32", batch=8, peak=2 * 10**9),
        make_record("jax", "fp32", batch=16, peak=9 * 10**10),
        make_record("torch", "fp32", batch=8, peak=5 * 10**10, origin=old),
    ]
    case = Case.from_id("transformer/torch/train/fp32/b32/tiny")
    peak, _ = find_peak(make_rows(records), case, Searches())
    assert (peak.value, peak.method) == (8e9, "line through batches 4, 8, at 4.0 times batch 8")


def test_a_batch_needs_no_more_than_a_larger_measured_one():
    """Three peaks that lie off their line give a wide interval, also between them."""
    records = [
        make_record("torch", "fp32", batch=4, peak=1_000_000_000),
        make_record("torch", "fp32", batch=8, peak=1_500_000_000),
        make_record("torch", "fp32", batch=16, peak=1_600_000_000),
    ]
    highest = {}
    for batch in (2, 6, 12, 20):
        case = Case("transformer", "torch", "train", "fp32", batch, "tiny")
        peak, _ = find_peak(make_rows(records), case, Searches())
        assert peak.value <= peak.high
        highest[batch] = peak.high
    assert highest[2] <= 1_000_000_000
    assert highest[6] <= 1_500_000_000
    assert highest[12] <= 1_600_000_000
    assert highest[20] > 1_600_000_000  # no larger batch was measured


def make_unet_record(strategy: str, batch: int) -> Record:
    """Return a record of a U-Net that has a MiB, and one more for each sample."""
    (made,) = measure_batches(batch, strategy=strategy)
    return made.model_copy(update={"case": f"unet3d/torch/train/{strategy}/b{batch}/tiny"})


def test_a_line_leaves_out_single_samples_where_convolutions_may_take_another_path():
    """Batch 4 of four micro-batches is such a row: its peak may be above that of batch 8."""
    records = [make_unet_record("accumulate", batch) for batch in (4, 8, 16)]
    single = records[0].model_copy(update={"peaks": {"host.rss": 2**40}})
    case = Case("unet3d", "torch", "train", "accumulate", 32, "tiny")
    peak, _ = find_peak(make_rows([single, *records[1:]]), case, Searches())
    assert peak == find_peak(make_rows(records[1:]), case, Searches())[0]
    assert "batches 8, 16" in peak.method


@pytest.mark.parametrize(
    ("strategy", "measured", "batch"),
    [("fp32", (2, 4), 1), ("accumulate", (8, 16), 4)],  # micro-batches of one sample
)
def test_a_single_sample_is_not_predicted_from_several(strategy, measured, batch):
    """PyTorch's U-Net takes 2.5 times the upper end: convolutions then take another path."""
    records = [make_unet_record(strategy, other) for other in measured]
    case = Case("unet3d", "torch", "train", strategy, batch, "tiny")
    with pytest.raises(NoRecords, match=f"'unet3d/torch/train/{strategy}/tiny' .* runs it"):
        find_peak(make_rows(records), case, Searches())

    with_single_sample = [make_unet_record(strategy, batch), *records]
    peak, _ = find_peak(make_rows(with_single_sample), case, Searches())
    assert peak.kind == "measured"
    two_samples = replace(case, batch=2 * batch)
    peak, _ = find_peak(make_rows(records[1:]), two_samples, Searches())
    assert peak.kind == "predicted"


def test_two_batches_give_the_range_of_what_each_allows_for():
    """They are always on their line: that shows nothing of a batch where the program changes."""
    case = Case.from_id("transformer/torch/train/fp32/b16/tiny")
    at_4 = make_record("torch", "fp32", batch=4, peak=1_000_000_000)
    at_8 = make_record("torch", "fp32", batch=8, peak=1_100_000_000)

    both, _ = find_peak(make_rows([at_4, at_8]), case, Searches())
    first, _ = find_peak(make_rows([at_4]), case, Searches())
    second, _ = find_peak(make_rows([at_8]), case, Searches())

    assert both.value == pytest.approx(1_300_000_000)
    assert both.low == min(first.low, second.low)
    assert both.high == max(first.high, second.high)
    assert both.high > both.value
    assert both.needs >= both.high, "a budget must have the upper end"


def test_without_records_the_command_that_measures_names_the_folder(tmp_path):
    case = Case.from_id("unet3d/jax/eval/no_grad/b4/full")
    prediction = predict_from_rows(case, [], Results(tmp_path))
    selector = "unet3d/jax/eval/no_grad/*/full"
    assert prediction.note.startswith(f"no records of {selector}; measure first")
    assert prediction.note.endswith(f"framebench run '{selector}' --results {tmp_path}")


def test_records_that_predict_nothing_are_not_suggested_to_be_measured(tmp_path):
    wrong = Verification(passed=False, reason="loss is off")
    measured = make_record("torch", "fp32", batch=4, peak=10**9, verification=wrong)
    case = Case.from_id("transformer/torch/train/fp32/b8/tiny")
    prediction = predict_from_rows(case, make_rows([measured]), Results(tmp_path))
    assert prediction.note.endswith("its result was not verified")


def test_any_batch_can_be_parsed():
    assert parse_any_batch("resnet50/torch/train/fp32/b24/full").batch == 24
    assert parse_any_batch("unet3d/torch/train/checkpoint/b11").size == "cpu"
    assert parse_any_batch("transformer/jax/train/long/b3/cpu").config.length == 1024


@pytest.mark.parametrize(
    "case",
    [
        "resnet50/torch/train/fp32/b0/full",
        "resnet50/torch/train/nothing/b24/full",
        "x/torch/train/fp32/b2/cpu",
        "resnet50/torch/train/fp32/b24/huge",
        "resnet50",
        "resnet50/torch/train/fp32/b65537/cpu",
    ],
)
def test_unknown_cases_are_refused(case):
    with pytest.raises(UnknownCase):
        parse_any_batch(case)


def select_one_of_each(framework: str) -> list[Case]:
    """Return the first case of each scenario that has no obstacle."""
    first = {}
    for case in choose_fewest(framework):
        if not explain_unpredictable(case):
            first.setdefault(case.scenario, case)
    return list(first.values())


@pytest.mark.slow
@pytest.mark.parametrize("choose", [select_one_of_each, rarely(list_supported)])
def test_fake_tensors_take_every_case_that_has_no_obstacle(choose, predicted):
    cases = [case for case in choose("torch") if not explain_unpredictable(case)]
    scenarios = {case.scenario for case in cases}
    assert scenarios >= {"train", "eval", "finetune", "varlen", "pair", "custom_op"}
    predictions = predicted(*[case.id for case in cases])
    for case in cases:
        prediction = predictions[case.id]
        assert prediction["predicted"] >= prediction["live_bytes"] > 0, case.id
        assert prediction["predicted"] >= compute_lower_bound(case).total, case.id


def test_predictions_of_fake_tensors_are_linear_in_the_batch(predicted):
    """A line through two batches, which this machine could not run, meets the third."""
    cases = [f"resnet50/torch/train/fp32/b{batch}/full" for batch in (64, 128, 256)]
    predictions = predicted(*cases)
    small, medium, large = (predictions[case]["predicted"] for case in cases)
    line = fit_line([64, 128], [small, medium])
    assert line.predict(256).value == pytest.approx(large, rel=0.001)
    assert large > 20e9


CASES = [
    "transformer/torch/train/checkpoint/b4/cpu",
    "transformer/torch/train/fp32/b4/cpu",
    "transformer/torch/train/accumulate/b4/cpu",
    "transformer/torch/train/amp_bf16/b4/cpu",
    "resnet50/torch/train/fp32/b8/cpu",
    "unet3d/torch/train/fp32/b4/cpu",
]


@pytest.mark.slow
@needs_host_peak
@pytest.mark.parametrize(
    "case",
    [CASES[0], *map(rarely, CASES[1:])],
)
def test_fake_tensors_predict_measured_peaks(case, predicted, steady):
    measured = steady(case)[0]["host.rss"]
    assert predicted(case)[case]["predicted"] == pytest.approx(measured, rel=0.05)


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
def test_predict_prints_the_lower_bound_and_the_fake_tensors():
    least, fake, *_ = read_json("predict", "transformer/torch/train/fp32/b24/cpu")["predictions"]
    assert (least["method"], fake["method"]) == ("lower bound", "fake tensors")
    assert least["bytes"] < fake["bytes"] < 1.2 * least["bytes"]
    compiled = framebench("predict", "transformer/torch/train/compile/b4/cpu")
    assert "only eager execution is predicted" in compiled.stdout
    framebench("predict", "transformer/torch/train/nothing/b4/cpu", code=2)
