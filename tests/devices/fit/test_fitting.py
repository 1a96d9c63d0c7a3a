"""Test whether a prediction fits, and the search for the largest batch."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from framebench.devices.catalog import CONTEXT, find
from framebench.devices.fit.fitting import RULES, FitAssessment, PredictedBatchSearch
from framebench.devices.needs import INTERVALS
from framebench.devices.plans.answer import AT_LEAST, CONVOLUTIONS, NOT_ASKED
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
    smallest = Case("transformer", framework, "train", "fp32", unit, "full")
    search = PredictedBatchSearch(smallest, GPU)
    case = search.next()
    while case:
        assert case.batch not in search.planned
        parts = {"arguments": arguments}
        search.planned[case.batch] = predict_bytes(case, size(case.batch), parts=parts)
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
    assert assessment.answer == f"{answer}, by a prediction whose error is not judged: 4 rows"


def test_a_budget_replaces_the_memory_of_the_device():
    assert assess_bytes(2**30, budget=2**30 + CONTEXT[1]).fits
    assert not assess_bytes(2**30, budget=2**30).fits
    assert assess_bytes(2**30, budget=2**50).memory == MEMORY


def test_a_refusal_does_not_fit_and_a_failure_is_unknown():
    assert assess_bytes(None, outcome="refused", needs_bytes=2**40).fits is False
    assert (assess_bytes(None).fits, assess_bytes(None).answer) == (None, "too slow")


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


@pytest.mark.parametrize("unit", [1, 4])
@pytest.mark.parametrize(("fixed", "slope"), [(2**33, 7 * 2**27), (0, 2**26)])
def test_the_largest_batch_on_a_line_is_found(fixed, slope, unit):
    search = search_batches(need_per_sample(slope, fixed), unit)
    right = (MEMORY - CONTEXT[1] - fixed) // slope // unit * unit
    assert (search.result.batch, search.result.is_exact, search.result.fits) == (right, True, True)
    assert len(search.planned) <= 6


def test_a_search_over_plateaus_ends():
    """Segments make steps, and the first two batches may need the same."""

    def predict_bytes(batch):
        segments = math.ceil(batch * 4 / 20)  # of 20 MiB each, where a sample needs 4
        return segments * 20 * 2**20

    search = search_batches(predict_bytes)
    assert len(search.planned) <= RULES["torch"].most_plans
    assert search.result.fits
    assert search.result.batch > 8000


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


def test_a_truncated_search_is_marked_incomplete():
    def predict_bytes(batch):
        return round(2**28 * batch**0.5)  # each line through two batches ends too low

    search = search_batches(predict_bytes, framework="jax")
    assert len(search.planned) == RULES["jax"].most_plans
    assert not search.result.is_exact


def test_where_the_smallest_batch_does_not_fit_nothing_more_is_planned():
    search = search_batches(need_per_sample(2**40))
    assert list(search.planned) == [1]
    assert search.result.fits is False


def test_a_failure_for_one_sample_alone_is_stepped_over():
    """Batch norm refuses a single sample where nothing else is left to normalize over."""

    def predict_bytes(batch):
        return None if batch == 1 else 2**30 * batch

    search = search_batches(predict_bytes)
    assert search.result.batch == (MEMORY - CONTEXT[1]) // 2**30
    assert search.result.is_exact


def test_a_compiler_is_asked_until_the_next_batch_does_not_fit():
    """Arguments, which no batch changes, are a point of the line."""
    search = search_batches(need_per_sample(2**30, 2**32), 1, "jax", arguments=2**32)
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


def test_search_stays_below_a_batch_whose_prediction_failed():
    """A failed prediction has no size, so that lines through the others lead beyond its batch."""
    predicted = []

    def predict_bytes(batch):
        failed = [earlier for earlier in predicted if earlier >= 100]
        assert not failed or batch < min(failed)
        predicted.append(batch)
        return 2**24 * batch if batch < 100 else None

    result = search_batches(predict_bytes).result
    assert result.batch < 100
    assert result.smallest_not_fitting == min(batch for batch in predicted if batch >= 100)
