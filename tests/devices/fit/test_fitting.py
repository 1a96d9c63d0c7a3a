"""Test whether a prediction fits, and the search for the largest batch."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framebench.devices.catalog import CONTEXT, find
from framebench.devices.fit.fitting import (
    FIRST_LEAP,
    LEAP,
    MOST_FAILURES,
    MOST_PLANS,
    MOST_SAMPLES,
    FitAssessment,
    PredictedBatchSearch,
)
from framebench.devices.needs import INTERVALS
from framebench.devices.plans.answer import AT_LEAST, AT_MOST, CONVOLUTIONS, NOT_ASKED
from framebench.devices.plans.planned import Planned
from framebench.suite.case import Case
from tests.devices import fake_predictions

GPU = find("a100-40gb")
MEMORY = GPU.memory_bytes
CASE = Case.from_id("transformer/torch/train/fp32/b1/full")


def predict_bytes(case: Case, size: int | None, **fields: object) -> Planned:
    """Return a prediction of so many bytes; of a failure without any."""
    result = {"peak_bytes": size, "parts": {}}
    if size is None:
        result |= {"outcome": "failed", "reason": "too slow"}
    return fake_predictions.make_planned(
        case=case.id, device=GPU.name, framework=case.framework, **(result | fields)
    )


def assess_bytes(size: int | None, budget: int | None = None, **fields: object) -> FitAssessment:
    return FitAssessment(CASE, predict_bytes(CASE, size, **fields), GPU, budget)


def search_batches(
    size: Callable[[int], int | None], unit: int = 1, framework: str = "torch", arguments: int = 0
) -> PredictedBatchSearch:
    """Search with predictions of so many bytes for a batch; None fails."""

    def predict(case: Case) -> Planned:
        return predict_bytes(case, size(case.batch), parts={"arguments": arguments})

    return search_predictions(predict, framework, unit)


def search_predictions(
    predict: Callable[[Case], Planned], framework: str, unit: int = 1
) -> PredictedBatchSearch:
    """Search with the prediction that a function returns for each case."""
    smallest = Case("transformer", framework, "train", "fp32", unit, "full")
    search = PredictedBatchSearch(smallest, GPU)
    case = search.next()
    while case:
        assert case.batch not in search.planned
        search.planned[case.batch] = predict(case)
        case = search.next()
    return search


@pytest.fixture(autouse=True)
def exact(monkeypatch) -> None:
    """Let predictions have no error, unless a test allows for one."""
    fake_predictions.allow_error(monkeypatch, 0.0)


@pytest.mark.parametrize(
    ("size", "fits", "answer"),
    [
        # next to the largest context of the driver, also if the prediction is 10 % low
        ((MEMORY - CONTEXT[1]) / 1.3, True, "fits"),
        (
            (MEMORY - CONTEXT[1]) / 1.1,
            True,
            "fits with 0.0% to spare, if the prediction is at most 10.0% low",
        ),
        ((MEMORY - CONTEXT[1]) / 1.1 + 2**20, None, "fits if the prediction is at most 10.0% low"),
        ((MEMORY - CONTEXT[1]) / 1.04, None, "fits if the prediction is at most 4.0% low"),
        ((MEMORY - CONTEXT[1]) / 0.95, None, "fits only if the prediction is 5.0% high"),
        # not even next to the smallest context and if the prediction is 10 % high
        ((MEMORY - CONTEXT[0]) / 0.9 + 1, False, "does not fit"),
    ],
)
def test_the_context_and_the_error_decide(size, fits, answer, monkeypatch):
    fake_predictions.allow_error(monkeypatch, 0.1)
    assessment = assess_bytes(int(size))
    assert (assessment.fits, assessment.answer) == (fits, answer)


def test_each_kind_of_prediction_has_its_own_error(monkeypatch):
    """A step with convolutions whose workspaces are not known may take more than other steps."""
    interval = fake_predictions.make_interval(0.0, 0.3)
    monkeypatch.setitem(INTERVALS, "torch, convolutions without workspaces", interval)
    largest_context = CONTEXT[1]
    size = int((MEMORY - largest_context) / 1.1)
    with_convolutions = assess_bytes(size, flags={CONVOLUTIONS: NOT_ASKED})
    assert assess_bytes(size).fits is True, "fits also if the usual 10 % are missing"
    assert with_convolutions.fits is None, "undecided: up to 30 % may be missing"


@pytest.mark.parametrize(
    ("share", "answer"),
    [
        (1 / 1.3, "fits"),
        (1 / 1.04, "fits if the prediction is at most 4.0% low"),
        (1 / 0.95, "fits only if the prediction is 5.0% high"),
        (2.0, "does not fit"),
    ],
)
def test_an_answer_says_that_its_error_is_not_judged(share, answer, monkeypatch):
    """Only 4 rows are behind the error of compiled steps. They take this share of the memory."""
    monkeypatch.setitem(INTERVALS, "torch, compiled", fake_predictions.make_interval(-0.1, 0.1, 4))
    case = Case.from_id(CASE.id.replace("fp32", "compile"))
    size = int(share * (MEMORY - CONTEXT[1]))
    assessment = FitAssessment(case, predict_bytes(case, size), GPU)
    assert assessment.answer == f"{answer}, error not judged"


def test_a_budget_replaces_the_memory_of_the_device():
    assert assess_bytes(2**30, budget=2**30 + CONTEXT[1]).fits
    assert not assess_bytes(2**30, budget=2**30).fits
    assert assess_bytes(2**30, budget=2**50).memory == MEMORY


def test_a_refusal_does_not_fit_and_a_failure_is_unknown():
    assert assess_bytes(None, outcome="refused", needs_bytes=2**40).fits is False
    assert (assess_bytes(None).fits, assess_bytes(None).answer) == (None, "too slow")


def test_what_was_refused_does_not_fit_even_if_the_device_has_as_much():
    """A strategy may let the allocator take a part of the memory alone."""
    refused = assess_bytes(None, outcome="refused", needs_bytes=2**30)
    assert refused.fits is False


def make_bounded(case: Case, least: int, most: int) -> Planned:
    """Return the answer for a step that can only be bounded."""
    parts = {AT_LEAST: least, AT_MOST: most}
    return predict_bytes(case, None, outcome="not planned", parts=parts)


@pytest.mark.parametrize(
    ("least", "most", "fits", "answer"),
    [
        (2**30, 2**31, True, "fits by its upper bound"),
        (2**30, 2**40, None, "may fit: only its bounds are known"),
        (2**39, 2**40, False, "does not fit"),
    ],
)
def test_bounds_decide_where_they_can(least, most, fits, answer):
    assessment = FitAssessment(CASE, make_bounded(CASE, least, most), GPU)
    assert (assessment.fits, assessment.answer) == (fits, answer)
    assert assessment.failure is None


def test_the_largest_batch_of_a_bounded_step_fits_by_its_upper_bound():
    """A router may send each token to any expert."""

    def predict(case):
        return make_bounded(case, least=2**28 * case.batch, most=2**30 * case.batch)

    result = search_predictions(predict, "torch").result
    largest = (MEMORY - CONTEXT[1]) // 2**30
    assert (result.batch, result.is_exact, result.smallest_failing) == (largest, True, None)


def need_per_sample(slope: int, fixed: int = 0) -> Callable[[int], int]:
    """Return a function that gives the bytes of a batch, which lie on a line."""

    def compute_need(batch: int) -> int:
        return fixed + slope * batch

    return compute_need


def test_a_lower_bound_decides_that_what_is_not_simulated_does_not_fit():
    too_large = {AT_LEAST: MEMORY - CONTEXT[0] + 1}
    small = {AT_LEAST: MEMORY - CONTEXT[0]}
    bounded = assess_bytes(None, outcome="not planned", parts=too_large)
    assert (bounded.fits, bounded.answer) == (False, "does not fit")
    assert assess_bytes(None, outcome="not planned", parts=small).fits is None


@pytest.mark.parametrize("end", [420, 650, 1250])
def test_a_search_over_a_compilers_plateau_ends_with_a_narrow_gap(end):
    """XLA recomputes values to stay within its pool, up to a batch at which that helps no more.

    Lines through the sizes on such a plateau meet the limit at too small a batch.
    """

    def predict_bytes(batch):
        without_recomputation = 2**27 * batch
        if batch > end:
            return without_recomputation
        return min(without_recomputation, MEMORY * 7 // 10)

    result = search_batches(predict_bytes, framework="jax").result
    assert result.smallest_not_fitting
    assert result.batch <= end < result.smallest_not_fitting <= 1.2 * result.batch


@pytest.mark.parametrize("saved", [0.1, 0.25, 0.4])
@pytest.mark.parametrize("slope", [2**20, 2**27, 2**30])
def test_a_search_beyond_what_a_compiler_aims_at_takes_few_plans(slope, saved, monkeypatch):
    """XLA recomputes up to a part of a step to stay within its aim, and then grows again.

    An error of 8 % leaves a narrow gap open: the batch is known to 4 %.
    """
    fake_predictions.allow_error(monkeypatch, 0.08)
    limit = (MEMORY - CONTEXT[1]) / 1.08

    def predict_bytes(batch):
        without_recomputation = slope * batch
        at_least = (1 - saved) * without_recomputation
        return int(max(at_least, min(without_recomputation, 0.7 * MEMORY)))

    search = search_batches(predict_bytes, framework="jax")
    result = search.result
    assert predict_bytes(result.batch) <= limit < predict_bytes(result.smallest_not_fitting)
    assert result.smallest_not_fitting - result.batch <= max(1, 0.04 * result.batch + 1)
    assert len(search.planned) <= 7


def test_a_small_error_leaves_no_gap_open(monkeypatch):
    fake_predictions.allow_error(monkeypatch, 0.001)
    result = search_batches(need_per_sample(2**27)).result
    assert (result.is_exact, result.smallest_not_fitting) == (True, result.batch + 1)


def test_a_truncated_search_is_marked_incomplete():
    def predict_bytes(batch):
        return 2**30 if batch <= 420 else 2**50  # no line leads to the limit

    search = search_batches(predict_bytes, framework="jax")
    assert len(search.planned) == MOST_PLANS
    assert not search.result.is_exact
    assert search.result.batch <= 420 < search.result.smallest_not_fitting


def test_where_the_smallest_batch_does_not_fit_nothing_more_is_planned():
    search = search_batches(need_per_sample(2**40))
    assert list(search.planned) == [4, 1]
    assert search.result.fits is False


def test_a_failure_for_one_sample_alone_is_stepped_over():
    """Batch norm refuses a single sample where nothing else is left to normalize over."""

    def predict_bytes(batch):
        return None if batch == 1 else 2**34 * batch

    search = search_batches(predict_bytes)
    assert list(search.planned) == [4, 1, 2, 3]
    assert (search.result.batch, search.result.is_exact) == (2, True)


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_line_is_followed_until_the_next_batch_does_not_fit(framework):
    """Arguments, which no batch changes, are a point of the line."""
    search = search_batches(need_per_sample(2**30, 2**32), 1, framework, arguments=2**32)
    largest = (MEMORY - CONTEXT[1] - 2**32) // 2**30
    assert list(search.planned) == [4, largest, largest + 1]
    assert search.result.fits
    assert search.result.is_exact


def test_search_falls_back_to_the_smallest_batch():
    # 16 GiB per sample on 40 GB: 2 samples fit. JAX's search starts at 4.
    search = search_batches(need_per_sample(2**34), framework="jax")
    assert list(search.planned) == [4, 1, 2, 3]
    assert search.result.batch == 2
    assert search.result.is_exact


def find_by_bisection(size: Callable[[int], int], unit: int) -> int:
    """Return the largest multiple of `unit` that fits, where larger batches need no less."""
    fitting, above = 0, MOST_SAMPLES // unit + 1
    while above - fitting > 1:
        middle = (fitting + above) // 2
        if size(unit * middle) <= MEMORY - CONTEXT[1]:
            fitting = middle
        else:
            above = middle
    return unit * fitting


@settings(deadline=None)
@given(
    fixed=st.integers(0, 2**36),
    slope=st.integers(2**15, 2**33),
    kink=st.integers(1, 2**16),
    slope_beyond=st.integers(0, 2**33),
    segment=st.sampled_from([1, 20 * 2**20]),
    unit=st.integers(1, 8),
    is_fixed_part_known=st.booleans(),
)
def test_a_search_finds_what_plain_bisection_finds(
    fixed, slope, kink, slope_beyond, segment, unit, is_fixed_part_known
):
    """Memory grows along two lines, in whole segments of the pool."""

    def size(batch: int) -> int:
        beyond = max(0, batch - kink)
        needs = fixed + slope * (batch - beyond) + slope_beyond * beyond
        return math.ceil(needs / segment) * segment

    arguments = fixed if is_fixed_part_known else 0
    search = search_batches(size, unit, "jax", arguments)
    largest = find_by_bisection(size, unit)
    result = search.result
    if not largest:
        assert not result.fits
        assert list(search.planned) == [4 * unit, unit]
    elif result.is_exact:
        assert result.batch == largest
    else:
        assert len(search.planned) == MOST_PLANS
        assert result.batch <= largest
        assert result.smallest_not_fitting is None or largest < result.smallest_not_fitting
    is_line = segment == 1 and kink >= largest + unit and is_fixed_part_known
    if largest and is_line:
        # from the first batch, 4 times the smallest, two leaps are limited
        reach = 4 * unit * FIRST_LEAP * LEAP
        assert len(search.planned) <= (4 if largest < reach else 5)


@pytest.mark.parametrize("outcome", ["failed", "not planned"])
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_failure_is_not_read_as_too_large(framework, outcome):
    """All batches would fit. From 100 on the planner fails: it crashes, or takes too long."""

    def predict(case):
        if case.batch < 100:
            return predict_bytes(case, 2**24 * case.batch)
        return predict_bytes(case, None, outcome=outcome, reason="INTERNAL: a bug")

    search = search_predictions(predict, framework)
    result = search.result
    failed = [batch for batch in search.planned if batch >= 100]
    assert 0 < len(failed) <= MOST_FAILURES, "a plan that takes too long is not tried for ever"
    assert (result.fits, result.is_exact) == (True, False)
    assert result.smallest_not_fitting is None
    assert result.smallest_failing.batch == min(failed)
    assert result.smallest_failing.failure == "INTERNAL: a bug"


def test_a_failure_next_to_the_largest_batch_that_fits_leaves_the_answer_open():
    result = search_batches(lambda batch: 2**34 if batch == 1 else None).result
    assert (result.batch, result.is_exact, result.smallest_failing.batch) == (1, False, 2)


@settings(deadline=None)
@given(
    st.dictionaries(st.integers(1, 64), st.sampled_from([2**30, 2**50, None])),
    st.sampled_from([2**30, 2**50, None]),
    st.sampled_from(["torch", "jax"]),
)
def test_a_search_ends_and_answers_by_predictions_alone(sizes, otherwise, framework):
    """Whatever planners say: 1 GiB fits, 2**50 bytes do not, and None is a failure."""

    def predict_bytes(batch):
        return sizes.get(batch, otherwise)

    search = search_batches(predict_bytes, framework=framework)
    result = search.result
    assert list(map(predict_bytes, search.planned)).count(None) <= MOST_FAILURES
    if not result.fits:
        assert not any(predict_bytes(batch) == 2**30 for batch in search.planned)
        return
    assert predict_bytes(result.batch) == 2**30
    if result.smallest_not_fitting:
        assert predict_bytes(result.smallest_not_fitting) == 2**50
    if result.is_exact and result.batch < MOST_SAMPLES:
        assert result.smallest_not_fitting == result.batch + 1
    if result.smallest_failing:
        assert predict_bytes(result.smallest_failing.batch) is None
