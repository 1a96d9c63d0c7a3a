"""What is said while the largest batches are searched for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from framebench.devices.catalog import find
from framebench.devices.fit.fitting import RULES, PredictedBatchSearch
from framebench.devices.fit.rounds import SearchRounds, estimate_round
from framebench.suite.case import Case
from tests.devices.fake_predictions import make_origin, make_planned


def finish_plan(rounds: SearchRounds, case: Case, minutes: float, is_cached: bool = False) -> None:
    planned_at = datetime.now(UTC) - timedelta(days=is_cached)
    planned = make_planned(
        case=case.id,
        framework=case.framework,
        device="a100-40gb",
        origin=make_origin(planned_at=planned_at, wall_s=60 * minutes),
    )
    rounds.keep(planned)


def begin_rounds(at_once: int = 1) -> tuple[SearchRounds, list[Case]]:
    """Return the first round of a search in PyTorch and one in JAX, and its cases."""
    searches = []
    for framework in ("torch", "jax"):
        case = Case("transformer", framework, "train", "fp32", 1, "full")
        searches.append(PredictedBatchSearch(case, find("a100-40gb")))
    rounds = SearchRounds(searches, at_once)
    return rounds, rounds.begin()


def test_the_estimate_waits_for_a_plan_of_each_framework():
    """A compiler takes several times as long as a simulation."""
    rounds, (torch, jax) = begin_rounds()
    finish_plan(rounds, torch, minutes=1)
    assert "left" not in rounds.describe()
    finish_plan(rounds, jax, minutes=5)
    left = RULES["torch"].most_plans + 2 - 1 + 5 * (RULES["jax"].most_plans + 2 - 1)
    assert rounds.describe().endswith(f"2 of 2 planned, up to about {left} min left")


def test_cached_plans_take_no_time():
    rounds, (torch, jax) = begin_rounds()
    finish_plan(rounds, jax, minutes=100, is_cached=True)
    finish_plan(rounds, torch, minutes=1)
    left = RULES["torch"].most_plans + 2 - 1
    assert rounds.describe().endswith(f"up to about {left} min left")


def test_workers_wait_for_the_last_plan_of_a_round():
    rounds, (torch, jax) = begin_rounds(at_once=2)
    finish_plan(rounds, torch, minutes=1)
    finish_plan(rounds, jax, minutes=5)
    torch_rounds = RULES["torch"].most_plans + 2 - 1
    jax_rounds = RULES["jax"].most_plans + 2 - 1  # fewer, and each as long as JAX's plan
    left = 5 * jax_rounds + torch_rounds - jax_rounds
    assert rounds.describe().endswith(f"up to about {left} min left")


def test_a_plan_that_is_still_made_belongs_to_the_round_in_progress():
    """Two workers make the second plans of both searches, and one of them is done."""
    rounds, cases = begin_rounds(at_once=2)
    for case in cases:
        finish_plan(rounds, case, minutes=1)
    before = rounds.estimate_most_seconds()
    torch, _ = rounds.begin()
    finish_plan(rounds, torch, minutes=1)
    assert rounds.estimate_most_seconds() == before


@pytest.mark.parametrize(
    ("at_once", "seconds", "expected"),
    [(1, [1, 2, 3], 6), (2, [1, 1, 1], 2), (2, [1, 1, 5], 6), (2, [5, 1, 1], 5), (3, [4], 4)],
)
def test_a_plan_begins_as_soon_as_a_worker_is_free(at_once, seconds, expected):
    assert estimate_round(seconds, at_once) == expected
