"""What a job needs: peak and kept with a margin, or what a search under a limit has shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framebench.analysis.needs import (
    EnforcedLimits,
    compute_needs,
    format_needs,
)
from framebench.analysis.searches import CaseSearches
from framebench.suite.case import Case
from tests.analysis.test_searches import make_search

MIB = 2**20
CASE = Case.from_id("transformer/torch/train/fp32/b4/cpu")
sizes = st.integers(1, 2**40)


@pytest.mark.parametrize(
    ("sufficient", "insufficient", "needs"),
    [
        (90 * MIB, None, 90 * MIB),
        (200 * MIB, None, 105 * MIB),  # a limit above 1.05 x the peak changes nothing
        (None, 150 * MIB, 150 * MIB + 1),
        # a failure under a limit below 1.05 x the peak changes nothing either
        (None, 50 * MIB, 105 * MIB),
        (90 * MIB, 150 * MIB, 150 * MIB + 1),  # if two searches disagree, the larger need counts
    ],
)
def test_needs_are_105_percent_of_the_peak_unless_a_search_found_otherwise(
    sufficient, insufficient, needs
):
    """The peak is 100 MiB. A search ran the job in the sufficient limit, or failed to in the
    insufficient one.
    """
    limits = EnforcedLimits(sufficient, insufficient)
    assert compute_needs(100 * MIB, kept_bytes=0, limits=limits) == needs


def test_the_margin_is_also_on_what_a_process_keeps_next_to_the_peak():
    assert compute_needs(100 * MIB, kept_bytes=20 * MIB) == 126 * MIB


@given(sizes, st.lists(st.tuples(sizes, st.integers(1, 8)), max_size=4), st.integers(1, 12), sizes)
def test_searches_decide_whether_a_budget_is_enough_and_else_the_peak(
    peak, budgets_and_batches, batch, budget
):
    """Each search found the largest batch that fits its budget."""
    searches = [make_search(size, largest) for size, largest in budgets_and_batches]
    tried = CaseSearches(searches)
    limits = EnforcedLimits(tried.find_smallest_holding(batch), tried.find_largest_failing(batch))

    verdict = tried.check_fits(batch, budget)

    is_enough = compute_needs(peak, kept_bytes=0, limits=limits) <= budget
    if verdict is None:
        assert is_enough == (compute_needs(peak, kept_bytes=0) <= budget)
    else:
        assert is_enough == verdict


@pytest.mark.parametrize("needs", [1, MIB, 105 * MIB + 1, 105 * MIB - 1, 123_456_789])
def test_a_printed_need_is_never_too_small(needs):
    assert float(format_needs(needs).replace(",", "")) * MIB >= needs
