"""List the strategies that `try` runs on a user's model."""

from __future__ import annotations

from collections.abc import Sequence

from framebench.strategies.registry import BASELINES, find_strategy, list_strategies
from framebench.strategies.strategy import IncompatibleStrategies
from framebench.suite.case import AS_WRITTEN
from framebench.suite.user_file import Fault
from framebench.suite.user_strategies import is_general

SCENARIOS = ("train", "eval")


def list_general_strategies(scenario: str) -> list[str]:
    """Return the strategies for users' models.

    People use these strategies, they compute what the baseline computes, and they need nothing that
    only the suite's models have.
    """
    names = []
    for name in list_strategies(scenario):
        strategy = find_strategy(scenario, name)
        if strategy.same_loss and not strategy.only_for_claims and is_general(strategy):
            names.append(strategy.name)
    return names


def parse_strategies(text: str | None, scenario: str) -> list[str]:
    """Return the strategies that an option names, separated by commas; none without the option.

    `as-written` names the baseline, since tables call it so where a file has narrow weights.
    """
    if not text:
        return []
    names = []
    for name in text.split(","):
        if name == AS_WRITTEN:
            name = BASELINES.get(scenario) or name
        names.append(name)
    return names


def check_strategy(scenario: str, name: str, applying: Sequence[str]) -> None:
    """Raise Fault unless the name is a strategy for users' models, or a combination of such.

    `applying` is what `list_general_strategies` returned.
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
