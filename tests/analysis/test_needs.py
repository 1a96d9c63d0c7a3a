"""What a job needs: peak and kept with a margin, or what a search under a limit has shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framebench.analysis.needs import (
    EnforcedLimits,
    compute_needs,
    find_kept,
    format_needs,
    format_whole_needs,
)
from framebench.analysis.searches import NO_SEARCHES, CaseSearches
from framebench.records.search import Fit, Probe
from framebench.suite.case import Case
from tests.fake_records import provenance

MIB = 2**20
CASE = Case("transformer", "torch", "train", "fp32", 4, "cpu")
sizes = st.integers(1, 2**40)


def search(budget: int, fitting: int, failing: int) -> Fit:
    """Return a search within a budget that the larger batch ran out of."""
    return Fit(
        case="transformer/torch/train/fp32/b1/cpu",
        budget_bytes=budget,
        status="found",
        answer="found",
        largest=fitting,
        probes=[Probe(batch=fitting, outcome="fits"), Probe(batch=failing, outcome="memory")],
        provenance=provenance(),
    )


def test_a_job_needs_its_peak_and_what_is_kept_and_a_margin() -> None:
    assert compute_needs(100 * MIB, 20 * MIB) == 126 * MIB


def test_a_budget_that_held_the_job_is_enough() -> None:
    assert compute_needs(100 * MIB, kept=0, limits=EnforcedLimits(held=90 * MIB)) == 90 * MIB
    # a budget above what the rule asks for raises nothing: the rule stands
    assert compute_needs(100 * MIB, kept=0, limits=EnforcedLimits(held=200 * MIB)) == 105 * MIB


def test_a_budget_that_the_job_ran_out_of_is_not_enough() -> None:
    assert (
        compute_needs(100 * MIB, kept=0, limits=EnforcedLimits(failed=150 * MIB)) == 150 * MIB + 1
    )
    # running out of less than 5 % over the peak says nothing new: the rule stands
    assert compute_needs(100 * MIB, kept=0, limits=EnforcedLimits(failed=50 * MIB)) == 105 * MIB


def test_of_two_searches_that_disagree_the_worse_counts() -> None:
    limits = EnforcedLimits(held=90 * MIB, failed=150 * MIB)

    assert compute_needs(100 * MIB, 0, limits) == 150 * MIB + 1


@given(sizes, st.lists(st.tuples(sizes, st.integers(1, 8)), max_size=4), st.integers(1, 12), sizes)
def test_what_a_search_found_decides_whether_a_budget_is_enough(
    peak: int, made: list[tuple[int, int]], batch: int, budget: int
) -> None:
    tried = CaseSearches([search(size, fitting, fitting + 1) for size, fitting in made])
    limits = EnforcedLimits(tried.find_smallest_holding(batch), tried.find_largest_failing(batch))

    verdict = tried.check_fits(batch, budget)

    is_enough = compute_needs(peak, 0, limits) <= budget
    if verdict is None:
        assert is_enough == (compute_needs(peak, 0) <= budget)
    else:
        assert is_enough == verdict


def test_a_gpu_process_keeps_what_its_pool_and_context_take() -> None:
    in_use = find_kept(CASE, "allocator.in_use", 100 * MIB, 130 * MIB, NO_SEARCHES)
    unknown = find_kept(CASE, "allocator.in_use", 100 * MIB, None, NO_SEARCHES)

    assert in_use == 30 * MIB
    assert unknown is None


@pytest.mark.parametrize("needs", [1, MIB, 105 * MIB + 1, 105 * MIB - 1, 123_456_789])
def test_a_printed_need_is_never_too_small(needs: int) -> None:
    assert float(format_needs(needs).replace(",", "")) * MIB >= needs
    assert int(format_whole_needs(needs).replace(",", "")) * MIB >= needs
    assert format_needs(None) == "-"
