"""Predictions: a line finds what made the data, its interval covers, and fake tensors predict what
is then measured.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framebench.analysis import frames
from framebench.analysis.lower_bound import compute_lower_bound
from framebench.analysis.peaks import find_peak, read_evidence
from framebench.analysis.predict import TooFew, fit_line
from framebench.analysis.searches import Searches
from framebench.analysis.selection import select_records
from framebench.engine.environments import Environment
from framebench.instruments.host import HostPeak
from framebench.records.record import Record
from framebench.suite.case import Case, UnknownCase
from framebench.suite.hypothetical import explain_unpredictable, parse_any_batch
from tests.budget.conftest import Predicted
from tests.conftest import Steady
from tests.fake_records import RIGHT, provenance, record
from tests.processes import framebench
from tests.sample_records import MACHINE, RESULTS
from tests.suite.chosen_cases import choose_fewest, list_supported

pytestmark = pytest.mark.usefixtures("imported_once")

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


@settings(deadline=None)  # the first line imports scipy
@given(
    st.integers(0, 2**40),
    st.integers(1, 2**30),
    st.lists(st.integers(1, 512), min_size=3, max_size=6, unique=True),
)
def test_a_line_is_found_exactly(fixed: int, per_sample: int, batches: list[int]) -> None:
    line = fit_line(batches, [fixed + per_sample * b for b in batches])
    expected = fixed + per_sample * 1024
    assert line.predict(1024).value == pytest.approx(expected, rel=1e-6)
    assert line.fixed.value == pytest.approx(fixed, abs=1e-6 * expected)


def test_two_batches_have_no_interval_and_one_no_line() -> None:
    line = fit_line([4, 8], [100.0, 180.0])
    assert (line.fixed, line.per_sample, line.predict(16)) == (
        (20.0, None, None),
        (20.0, None, None),
        (340.0, None, None),
    )
    with pytest.raises(TooFew, match="there are: 4"):
        fit_line([4, 4], [100.0, 101.0])


def test_the_interval_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    seen = 0
    for _ in range(1000):
        *known, new = 100 + 10 * np.array([*BATCHES, 32]) + rng.normal(0, 5, len(BATCHES) + 1)
        _, low, high = fit_line(BATCHES, known).predict(32)
        seen += low <= new <= high
    assert 930 <= seen <= 970


def test_the_interval_of_fixed_and_slope_is_the_textbooks() -> None:
    """Worked with scipy's own regression: an independent implementation."""
    from scipy import stats

    x, y = np.array(BATCHES, float), np.array([11.0, 19.0, 43.0, 78.0, 166.0])
    line, other = fit_line(BATCHES, list(y)), stats.linregress(x, y)
    half = stats.t.ppf(0.975, 3) * np.array([other.intercept_stderr, other.stderr])
    assert line.fixed == pytest.approx(
        (other.intercept, other.intercept - half[0], other.intercept + half[0])
    )
    assert line.per_sample == pytest.approx(
        (other.slope, other.slope - half[1], other.slope + half[1])
    )


def test_lines_do_not_mix_what_differs_beside_the_batch() -> None:
    """Of another framework or version; the records of another machine are not even read."""
    other = made(8, 5e10).model_copy(
        update={
            "provenance": provenance(versions={"torch": "0"}, measured_at="2025-01-01T00:00:00Z")
        }
    )
    every = [made(4, 1e9), made(8, 2e9), made(16, 9e10, "jax"), other]
    peak, row = find_peak(
        frames.make_rows(select_records(every)),
        parse_any_batch("transformer/torch/train/fp32/b32"),
        Searches(),
    )
    assert (peak.value, peak.method, row.framework_version) == (
        8e9,
        "line through batches 4, 8",
        "1",
    )


def test_real_records_predict_every_framework() -> None:
    rows, _ = read_evidence(RESULTS, MACHINE, "transformer", "train")
    for framework in ("torch", "jax", "jittor"):
        small, large = (
            find_peak(
                rows, parse_any_batch(f"transformer/{framework}/train/fp32/b{b}"), Searches()
            )[0]
            for b in (24, 48)
        )
        assert 0 < small.value < large.value < 2 * small.value


def test_any_batch_has_a_name_and_nothing_else_is_made_up() -> None:
    assert parse_any_batch("resnet50/torch/train/fp32/b24/full").batch == 24
    assert parse_any_batch("unet3d/torch/train/checkpoint/b11") == parse_any_batch(
        "unet3d/torch/train/checkpoint/b11/cpu"
    )
    assert parse_any_batch("transformer/jax/train/long/b3/cpu").config.length == 1024
    for wrong in (
        "resnet50/torch/train/fp32/b0/full",
        "resnet50/torch/train/nothing/b24/full",
        "x/torch/train/fp32/b2/cpu",
        "resnet50/torch/train/fp32/24/full",
        "resnet50/torch/train/fp32/b24/huge",
        "resnet50",
    ):
        with pytest.raises(UnknownCase):
            parse_any_batch(wrong)


def one_of_each(framework: str) -> list[Case]:
    """Of each scenario, its first case without an obstacle."""
    return [
        *{
            c.scenario: c
            for c in reversed(choose_fewest(framework))
            if not explain_unpredictable(c)
        }.values()
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "choose", [one_of_each, pytest.param(list_supported, marks=pytest.mark.all_cases)]
)
def test_fake_tensors_take_every_case_that_has_no_obstacle(
    choose: Callable[[str], list[Case]], predicted: Predicted
) -> None:
    cases = [c for c in choose("torch") if not explain_unpredictable(c)]
    assert {c.scenario for c in cases} >= {
        "train",
        "eval",
        "finetune",
        "varlen",
        "pair",
        "custom_op",
    }
    found = predicted(*(c.id for c in cases))
    for case in cases:
        assert found[case.id]["predicted"] >= found[case.id]["live_bytes"] > 0, case.id
        assert found[case.id]["predicted"] >= compute_lower_bound(case).total, case.id


def test_fake_tensors_scale(predicted: Predicted) -> None:
    """Batches that this machine could not run; a line through two of them meets the third."""
    found = predicted(*(f"resnet50/torch/train/fp32/b{b}/full" for b in (64, 128, 256)))
    peaks = [p["predicted"] for p in found.values()]
    assert fit_line([64, 128], peaks[:2]).predict(256).value == pytest.approx(peaks[2], rel=0.001)
    assert peaks[2] > 20e9


@pytest.mark.slow
@pytest.mark.skipif(not HostPeak.is_available(), reason="needs a writable /proc/self/clear_refs")
@pytest.mark.parametrize(
    "cases",
    [
        ["transformer/torch/train/checkpoint/b4/cpu"],
        pytest.param(
            [
                *(
                    f"transformer/torch/train/{s}/b4/cpu"
                    for s in ("fp32", "accumulate", "amp_bf16")
                ),
                *("resnet50/torch/train/fp32/b8/cpu", "unet3d/torch/train/fp32/b4/cpu"),
            ],
            marks=pytest.mark.all_cases,
        ),
    ],
    ids=["some", "others"],
)
def test_fake_tensors_predict_what_is_measured(
    cases: list[str], predicted: Predicted, steady: Steady
) -> None:
    foreseen = predicted(*cases)
    for case in cases:
        assert foreseen[case]["predicted"] == pytest.approx(
            steady(case)[0]["host.rss"], rel=0.05
        ), case


@pytest.mark.slow
def test_the_command(environment: dict[str, Environment]) -> None:
    found = json.loads(
        framebench("predict", "transformer/torch/train/fp32/b24/cpu", "--json").stdout
    )["predictions"]
    assert [p["method"] for p in found][:2] == ["lower bound", "fake tensors"]
    least, fake, *_ = (p["bytes"] for p in found)
    assert least < fake < 1.2 * least
    compiled = framebench("predict", "transformer/torch/train/compile/b4/cpu")
    assert "only eager execution is predicted" in compiled.stdout
    assert framebench("predict", "transformer/torch/train/nothing/b4/cpu").returncode == 2


@pytest.mark.parametrize("batch", ["b65537", "b9999999"])
def test_a_batch_that_no_step_has_is_refused_before_its_inputs_are_made(batch: str) -> None:
    done = framebench("predict", f"transformer/torch/train/fp32/{batch}/cpu")
    assert done.returncode == 2
    assert "choose at most b65536" in done.stderr
