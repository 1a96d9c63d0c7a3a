"""Which strategies `try` runs on a user's model."""

from __future__ import annotations

from framebench.models.user_model import GENERAL, is_general
from framebench.strategies.registry import STRATEGIES, find_strategy, list_strategies

SCENARIOS = ("train", "eval")

assert {plan.how for plan in STRATEGIES.values()} >= GENERAL


def list_general_strategies(scenario: str) -> list[str]:
    """Return the strategies that people use, and that compute what the baseline does."""
    plans = [find_strategy(scenario, name) for name in list_strategies(scenario)]
    return [
        plan.name
        for plan in plans
        if plan.same_loss and not plan.only_for_claims and is_general(plan)
    ]
