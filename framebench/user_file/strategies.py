"""Which strategies `try` runs on a model of the user's own."""

from __future__ import annotations

from framebench.models.user_model import GENERAL, known
from framebench.strategies.registry import STRATEGIES, find, names

SCENARIOS = ("train", "eval")

assert {plan.how for plan in STRATEGIES.values()} >= GENERAL


def strategies(scenario: str) -> list[str]:
    """Return those that people use, and that compute what the baseline does."""
    plans = [find(scenario, name) for name in names(scenario)]
    return [plan.name for plan in plans if plan.same_loss and not plan.only_for_claims and known(plan)]
