"""What is said while the largest batches are searched for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from framebench.devices.catalog import find
from framebench.devices.fit.fitting import MOST_PLANS, PredictedBatchSearch
from framebench.devices.fit.rounds import SearchRounds
from framebench.suite.case import Case
from tests.devices.fake_predictions import make_origin, make_planned

PLANS_LEFT = MOST_PLANS - 1  # that a search still makes at most, after its first one


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
    left = PLANS_LEFT + 5 * PLANS_LEFT
    assert rounds.describe().endswith(f"2 of 2 planned, up to about {left} min left")


def test_a_failed_plan_is_not_counted_as_planned():
    rounds, (torch, jax) = begin_rounds()
    finish_plan(rounds, torch, minutes=1)
    failed = {"outcome": "failed", "reason": "a bug", "peak_bytes": None, "parts": {}}
    rounds.keep(make_planned(case=jax.id, device="a100-40gb", **failed))
    assert "1 of 2 planned, 1 failed" in rounds.describe()


def test_cached_plans_take_no_time():
    rounds, (torch, jax) = begin_rounds()
    finish_plan(rounds, jax, minutes=100, is_cached=True)
    finish_plan(rounds, torch, minutes=1)
    assert rounds.describe().endswith(f"up to about {PLANS_LEFT} min left")


def test_plans_of_one_search_are_made_one_after_the_other():
    """Two workers make the plans of both searches, of which JAX's takes longer."""
    rounds, (torch, jax) = begin_rounds(at_once=2)
    finish_plan(rounds, torch, minutes=1)
    finish_plan(rounds, jax, minutes=5)
    assert rounds.describe().endswith(f"up to about {5 * PLANS_LEFT} min left")
