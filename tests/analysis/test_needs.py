"""What a job needs: peak and kept with a margin, or what a search under a limit has shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framebench.analysis.needs import (
    EnforcedLimits,
    compute_needs,
    find_kept_bytes,
    format_needs,
)
from framebench.analysis.searches import NO_SEARCHES, CaseSearches
from framebench.suite.case import Case
from tests.analysis.test_searches import make_search

MIB = 2**20
CASE = Case.from_id("transformer/torch/train/fp32/b4/cpu")
sizes = st.integers(1, 2**40)


@pytest.mark.parametrize(
    ("enough", "too_little", "needs"),
    [
        (90 * MIB, None, 90 * MIB),
        (200 * MIB, None, 105 * MIB),  # a limit above 1.05 x the peak changes nothing
        (None, 150 * MIB, 150 * MIB + 1),
        (None, 50 * MIB, 105 * MIB),  # so does a failure under a limit below it
        (90 * MIB, 150 * MIB, 150 * MIB + 1),  # if two searches disagree, the larger need counts
    ],
)
def test_needs_are_105_percent_unless_a_search_found_otherwise(enough, too_little, needs):
    """The job, whose peak is 100 MiB, ran under one limit, and did not under another."""
    assert compute_needs(100 * MIB, 0, EnforcedLimits(enough, too_little)) == needs


def test_the_margin_is_also_on_what_a_process_keeps_next_to_the_peak():
    assert compute_needs(100 * MIB, 20 * MIB) == 126 * MIB


@given(sizes, st.lists(st.tuples(sizes, st.integers(1, 8)), max_size=4), st.integers(1, 12), sizes)
def test_a_search_decides_whether_a_budget_is_enough(peak, made, batch, budget):
    tried = CaseSearches([make_search(size, fitting) for size, fitting in made])
    limits = EnforcedLimits(tried.find_smallest_holding(batch), tried.find_largest_failing(batch))

    verdict = tried.check_fits(batch, budget)

    is_enough = compute_needs(peak, 0, limits) <= budget
    if verdict is None:
        assert is_enough == (compute_needs(peak, 0) <= budget)
    else:
        assert is_enough == verdict


@pytest.mark.parametrize(("process", "kept"), [(130 * MIB, 30 * MIB), (None, None)])
def test_a_gpu_process_keeps_memory_outside_its_tensors(process, kept):
    assert find_kept_bytes(CASE, "allocator.in_use", 100 * MIB, process, NO_SEARCHES) == kept


@pytest.mark.parametrize("needs", [1, MIB, 105 * MIB + 1, 105 * MIB - 1, 123_456_789])
def test_a_printed_need_is_never_too_small(needs):
    assert float(format_needs(needs).replace(",", "")) * MIB >= needs
    assert format_needs(None) == "-"
