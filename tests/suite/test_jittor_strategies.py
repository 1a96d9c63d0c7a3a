"""Every strategy of Jittor computes the right thing and proves its effect."""

import pytest

from tests.marks import rarely
from tests.suite.chosen_cases import choose_cases, find_faults, list_written


@pytest.mark.slow
@pytest.mark.parametrize("is_rare", [False, rarely(True)])
@pytest.mark.parametrize("workload", list_written("jittor"))
def test_every_strategy_is_right_and_confirmed(workload, is_rare, environment):
    cases = choose_cases("jittor", workload, is_rare)
    assert find_faults(environment["jittor"], cases) == {}
