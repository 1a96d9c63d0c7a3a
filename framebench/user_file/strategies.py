"""Which strategies `try` runs on a user's model."""

from __future__ import annotations

from collections.abc import Sequence

from framebench.models.user_model import is_general
from framebench.strategies.registry import find_strategy, list_strategies
from framebench.strategies.strategy import IncompatibleStrategies
from framebench.suite.user_file import Fault

SCENARIOS = ("train", "eval")


def list_general_strategies(scenario: str) -> list[str]:
    """Return the strategies that people use, and that compute what the baseline does."""
    plans = [find_strategy(scenario, name) for name in list_strategies(scenario)]
    return [
        plan.name
        for plan in plans
        if plan.same_loss and not plan.only_for_claims and is_general(plan)
    ]


def check_strategy(scenario: str, name: str, applying: Sequence[str]) -> None:
    """Raise Fault unless the name is a strategy for users' models, or a combination of such.

    `applying`: what `list_general_strategies` returned.
    """
    for part in name.split("+"):
        if part not in applying:
            choices = ", ".join(applying)
            raise Fault(
                f"no strategy {part!r} for a user model; choose from: {choices}; combinations "
                "have a +"
            )
    try:
        find_strategy(scenario, name)
    except (IncompatibleStrategies, KeyError) as error:
        raise Fault(f"{name}: {error}") from error
