"""Read the catalog: all scenarios and strategies, with how a framework does each or why not.

`catalog.toml` has the scenarios, and names the files of strategies. Each table of those is a
`Strategy`; its keys `torch`, `jax` and `jittor` say how a framework does it.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from framebench.models.spec import Optimizer
from framebench.strategies.strategy import (
    FRAMEWORKS,
    AlwaysOn,
    Emulated,
    IncompatibleStrategies,
    Native,
    Scenario,
    Strategy,
    Support,
    Unsupported,
    combine,
    use_everywhere,
)

FOLDER = Path(__file__).parent
KINDS = {
    "native": Native,
    "emulated": Emulated,
    "always_on": AlwaysOn,
    "unsupported": Unsupported,
}


def read_tables(name: str) -> dict[str, Any]:
    """Return the tables of a file of the catalog."""
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def read_strategies(name: str) -> list[Strategy]:
    """Return the strategies of a file, in its order. Raises TypeError for an unknown key."""
    tables = read_tables(name)
    clashes: dict[str, dict[str, str]] = defaultdict(dict)  # by strategy: another one, and why
    for clash in tables.get("clash", ()):
        for strategy in clash["strategies"]:
            for other in clash["others"]:
                clashes[strategy][other] = clash["why"]
    return [make_strategy(row, clashes[row["name"]]) for row in tables["strategy"]]


def make_strategy(row: dict[str, Any], clashes: dict[str, str]) -> Strategy:
    """Return the strategy that a table declares."""
    settings = freeze(row)
    support = {}
    for framework in FRAMEWORKS:
        if framework in settings:
            support[framework] = make_support(settings.pop(framework))
    if "optimizer" in settings:
        settings["optimizer"] = Optimizer(**settings["optimizer"])
    return Strategy(support=support, clashes=clashes, **settings)


def make_support(settings: dict[str, Any]) -> Support:
    """Return a framework's support of a strategy, from its settings in the TOML file.

    The kind is taken out of `settings`. Raises ValueError unless there is exactly one, and
    TypeError for a setting that this kind does not have.
    """
    (kind,) = settings.keys() & KINDS.keys()
    why = settings.pop(kind)
    return KINDS[kind](why, **settings)


def freeze(value: Any) -> Any:
    """Return a value of TOML with tuples for its lists: fields of frozen classes are hashable."""
    if isinstance(value, dict):
        return {name: freeze(entry) for name, entry in value.items()}
    return tuple(value) if isinstance(value, list) else value


_CATALOG = read_tables("catalog")
SCENARIOS = {row["name"]: Scenario(**freeze(row)) for row in _CATALOG["scenario"]}
BASELINES = {row.name: row.baseline for row in SCENARIOS.values()}  # ratios refer to them
COMBINATIONS: dict[str, tuple[str, ...]] = freeze(_CATALOG["combinations"])
_ROWS = [row for name in _CATALOG["files"] for row in read_strategies(name)]
STRATEGIES: dict[tuple[str, str], Strategy] = {
    (scenario, row.name): row
    for scenario in SCENARIOS
    for row in _ROWS
    if scenario in row.scenarios
}
# strategies of several processes or devices together, which are in no profile
OVER_RANKS: dict[tuple[str, str], Strategy] = {
    (scenario, row.name): row for row in read_strategies("ranks") for scenario in row.scenarios
}
_ALL = STRATEGIES | OVER_RANKS


def list_strategies(scenario: str) -> tuple[str, ...]:
    """Return the strategies of a scenario, in the order of the table; combinations come last."""
    single = tuple(name for of_scenario, name in STRATEGIES if of_scenario == scenario)
    return single + COMBINATIONS.get(scenario, ())


def list_used(scenario: str) -> tuple[str, ...]:
    """Return the strategies of a scenario that people use, without those for claims alone."""
    names = list_strategies(scenario)
    return tuple(name for name in names if not find_strategy(scenario, name).only_for_claims)


@cache
def find_strategy(scenario: str, name: str) -> Strategy:
    """Return a strategy, or a combination `a+b` in any order.

    Raises KeyError with (scenario, strategy) for an unknown name, and IncompatibleStrategies where
    the parts of a combination exclude each other.
    """
    if (scenario, name) in _ALL:
        return _ALL[scenario, name]
    parts = [_ALL[scenario, part] for part in name.split("+")]
    parts.sort(key=list(_ALL.values()).index)  # in the order of the catalog
    return combine(tuple(parts), SCENARIOS[scenario])


GONE = "this version of framebench does not have it"


@cache
def look_up_strategy(scenario: str, name: str) -> Strategy:
    """Return the strategy, or a stand-in for one that this version does not have.

    Archived records may name strategies that are gone.
    """
    try:
        return find_strategy(scenario, name)
    except (KeyError, IncompatibleStrategies):
        support = use_everywhere(Unsupported(GONE))
        return Strategy(
            name, scenarios=(scenario,), axis="archived", summary=GONE, effect=GONE, support=support
        )


def look_up_scenario(name: str) -> Scenario:
    """Return the scenario, or a stand-in without a baseline for one that is gone."""
    return SCENARIOS.get(name) or Scenario(name, GONE, baseline="", observes="loss")


def find_baseline(scenario: str) -> str:
    """Return the name of the scenario's baseline, or "" for a scenario that is gone."""
    return look_up_scenario(scenario).baseline


def describe_precisions(scenario: str, strategies: Iterable[str]) -> str:
    """Return the precision of the scenario's baseline, and the strategies with another one."""
    default = look_up_strategy(scenario, find_baseline(scenario)).precision
    others = []
    for strategy in set(strategies):
        precision = look_up_strategy(scenario, strategy).precision
        if precision != default:
            others.append((precision, strategy))
    text = f"Precision {default}"
    if others:
        exceptions = [f"{strategy} {precision}" for precision, strategy in sorted(others)]
        text += f"; {', '.join(exceptions)}"
    return f"{text}."
