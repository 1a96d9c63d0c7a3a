"""Test whether a prediction fits, and the search for the largest batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from framebench.devices.catalog import CONTEXT, find
from framebench.devices.fit.fitting import RULES, FitAssessment, PredictedBatchSearch
from framebench.devices.needs import INTERVALS, ErrorInterval
from framebench.devices.plans.answer import CONVOLUTIONS, NOT_ASKED
from framebench.devices.plans.planned import Planned
from framebench.suite.case import Case
from tests.devices import fake_predictions

GPU = find("a100-40gb")
MEMORY = GPU.memory_bytes
CASE = Case("transformer", "torch", "train", "fp32", 1, "full")


def planned(case: Case, size: int | None, **fields: object) -> Planned:
    """Return a prediction of so many bytes."""
    result = {"source": "allocator.simulated", "parts": {}} | fields
    return fake_predictions.planned(
        case=case.id, device=GPU.name, framework=case.framework, peak_bytes=size, **result
    )


def assess(size: int, budget: int | None = None) -> FitAssessment:
    return FitAssessment(CASE, planned(CASE, size), GPU, budget)


@pytest.fixture(autouse=True)
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let predictions have no error, unless a test allows for one."""
    fake_predictions.allow_error(monkeypatch, 0.0)


@pytest.fixture
def ten_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let predictions be off by ten percent on either side."""
    fake_predictions.allow_error(monkeypatch, 0.1)


@pytest.mark.usefixtures("ten_percent")
def test_the_largest_context_and_the_error_must_fit_too() -> None:
    largest = int((MEMORY - CONTEXT[1]) / 1.1)
    assert (assess(largest).fits, assess(largest).answer) == (True, "fits")
    assert assess(largest + 2**20).fits is None


@pytest.mark.usefixtures("ten_percent")
def test_what_does_not_fit_with_the_smallest_does_not() -> None:
    smallest = int((MEMORY - CONTEXT[0]) / 0.9) + 1
    assert (assess(smallest).fits, assess(smallest).answer) == (False, "does not fit")
    assert assess(smallest - 2**20).fits is None


@pytest.mark.usefixtures("ten_percent")
def test_a_borderline_prediction_states_the_error_that_decides() -> None:
    at_four_percent = int((MEMORY - CONTEXT[1]) / 1.04)
    assert assess(at_four_percent).answer == "fits if the prediction is at most 4.0% low"
    above = int((MEMORY - CONTEXT[1]) / 0.95)
    assert assess(above).answer == "fits only if the prediction is 5.0% high"


def test_each_kind_of_prediction_has_its_own_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Convolutions whose workspaces are not known may take more than the others."""
    monkeypatch.setitem(
        INTERVALS,
        "torch, convolutions without workspaces",
        ErrorInterval(low=0.0, high=0.3, median=0.0, rows=1, families=1),
    )
    size = int((MEMORY - CONTEXT[1]) / 1.1)
    flags = {CONVOLUTIONS: NOT_ASKED}
    with_convolutions = FitAssessment(CASE, planned(CASE, size, flags=flags), GPU)
    assert (assess(size).fits, with_convolutions.fits) == (True, None)


def test_a_budget_replaces_the_memory_of_the_device() -> None:
    assert assess(2**30, budget=2**30 + CONTEXT[1]).fits
    assert not assess(2**30, budget=2**30).fits
    assert assess(2**30, budget=2**50).memory == MEMORY


def test_a_refusal_does_not_fit_and_a_failure_is_unknown() -> None:
    refused = planned(CASE, None, outcome="refused", reason="needs much", needs_bytes=2**40)
    failed = planned(CASE, None, outcome="failed", reason="it took longer than ten minutes")
    assert FitAssessment(CASE, refused, GPU).fits is False
    assert FitAssessment(CASE, failed, GPU).fits is None
    assert "ten minutes" in FitAssessment(CASE, failed, GPU).answer


def search_batches(
    size: Callable[[int], int], unit: int = 1, framework: str = "torch"
) -> PredictedBatchSearch:
    case = Case("transformer", framework, "train", "fp32", unit, "full")
    search = PredictedBatchSearch(case, GPU)
    while wanted := search.next():
        assert wanted.batch not in search.planned
        search.planned[wanted.batch] = planned(wanted, size(wanted.batch))
    return search


@pytest.mark.parametrize("unit", [1, 4])
@pytest.mark.parametrize(("fixed", "slope"), [(2**30, 2**30), (2**33, 7 * 2**27), (0, 2**26)])
def test_the_largest_batch_of_a_line_is_found_and_the_next_tried(
    fixed: int, slope: int, unit: int
) -> None:
    search = search_batches(lambda batch: fixed + slope * batch, unit)
    right = (MEMORY - CONTEXT[1] - fixed) // slope // unit * unit
    assert (search.result.batch, search.result.is_exact, search.result.fits) == (right, True, True)
    assert len(search.planned) <= 6


def test_a_search_over_plateaus_ends() -> None:
    """Segments make steps, and the first two batches may need the same."""
    step = 20 * 2**20
    search = search_batches(lambda batch: -(-batch * 2**22 // step) * step)
    assert len(search.planned) <= RULES["torch"].most_plans
    assert search.result.fits
    assert search.result.batch > 8000


@pytest.mark.parametrize("end", [420, 560, 650, 900, 1250])
def test_a_search_over_a_compilers_plateau_ends_with_a_narrow_gap(end: int) -> None:
    """XLA recomputes values to stay within its pool, up to a batch at which that helps no more.

    Lines through the sizes on such a plateau meet the limit at too small a batch.
    """
    pool, bytes_per_sample = MEMORY * 7 // 10, 2**27

    def predict_bytes(batch: int) -> int:
        without_recomputation = bytes_per_sample * batch
        return min(without_recomputation, pool) if batch <= end else without_recomputation

    search = search_batches(predict_bytes, framework="jax")

    assert search.result.batch <= end < search.result.smallest_not_fitting
    assert search.result.smallest_not_fitting <= 1.2 * search.result.batch


def test_a_truncated_search_is_marked_incomplete() -> None:
    # each line ends too low
    search = search_batches(lambda batch: round(2**28 * batch**0.5), framework="jax")
    assert len(search.planned) == RULES["jax"].most_plans
    assert not search.result.is_exact


def test_where_the_smallest_batch_does_not_fit_nothing_more_is_planned() -> None:
    search = search_batches(lambda batch: 2**40 * batch)
    assert list(search.planned) == [1]
    assert search.result.fits is False


def test_a_step_that_fails_for_one_sample_alone_is_searched_from_the_next() -> None:
    """Batch norm refuses a single sample where nothing else is left to normalize over."""
    search = PredictedBatchSearch(CASE, GPU)
    while case := search.next():
        if case.batch == 1:
            search.planned[1] = planned(case, None, outcome="failed", reason="one value")
        else:
            search.planned[case.batch] = planned(case, 2**30 * case.batch)
    assert search.result.batch == (MEMORY - CONTEXT[1]) // 2**30
    assert search.result.is_exact


def test_a_compiler_is_asked_until_the_next_batch_does_not_fit() -> None:
    """Arguments, which no batch changes, are a point of the line."""
    case = Case("transformer", "jax", "train", "fp32", 1, "full")
    search = PredictedBatchSearch(case, GPU)
    while wanted := search.next():
        parts = {
            "arguments": 2**32,
            "outputs": 2**32,
            "temporaries": 2**30 * wanted.batch,
            "aliased": 2**32,
        }
        size = parts["arguments"] + parts["temporaries"]
        search.planned[wanted.batch] = planned(wanted, size, source="compiler.plan", parts=parts)
    largest = (MEMORY - CONTEXT[1] - 2**32) // 2**30
    assert list(search.planned) == [4, largest, largest + 1]
    assert search.result.fits
    assert search.result.is_exact


def test_jax_search_may_leap_further_than_torch_after_the_first_batch() -> None:
    """XLA's plans have no segments of 20 MiB, which hide how a small batch grows."""
    bytes_per_sample = 2**24
    largest = (MEMORY - CONTEXT[1]) / bytes_per_sample
    search = search_batches(lambda batch: bytes_per_sample * batch, framework="jax")

    first, second = list(search.planned)[:2]
    assert second > RULES["torch"].first_leap * first
    assert largest > 2000
    assert search.result.batch > 0.95 * largest


def test_search_falls_back_to_the_smallest_batch_when_the_first_guess_does_not_fit() -> None:
    # 16 GiB per sample on 40 GB: 2 samples fit. JAX's search starts at 4.
    search = search_batches(lambda batch: 2**34 * batch, framework="jax")

    assert list(search.planned) == [4, 1, 2, 3]
    assert search.result.batch == 2
    assert search.result.is_exact


def test_search_stays_below_a_batch_whose_prediction_failed() -> None:
    """A failed prediction has no size, so that lines through the others lead beyond its batch."""
    first_failing = 100
    search = PredictedBatchSearch(CASE, GPU)
    smallest_failed = None
    while case := search.next():
        assert case.batch not in search.planned
        assert smallest_failed is None or case.batch < smallest_failed
        if case.batch < first_failing:
            search.planned[case.batch] = planned(case, 2**24 * case.batch)
        else:
            smallest_failed = case.batch
            search.planned[case.batch] = planned(case, None, outcome="failed", reason="too slow")

    assert smallest_failed is not None
    assert search.result.batch < first_failing
    assert search.result.smallest_not_fitting == smallest_failed
