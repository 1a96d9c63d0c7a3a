"""Cases by name: selectors with globs, combinations `a+b`, full ids."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from framebench.models import spec
from framebench.strategies.registry import OVER_RANKS, SCENARIOS, STRATEGIES, find_strategy
from framebench.strategies.strategy import FRAMEWORKS, IncompatibleStrategies
from framebench.suite.case import DEFAULT_SIZE, Case, UnknownCase, declared
from framebench.suite.profiles import RANKS, by_id, every_case, over_ranks

FEW = 12


def no_file(text: str) -> str:
    """The text, if it names cases. Raises UnknownCase for a file of the user's own, with what takes one."""
    if text.endswith(".py"):
        raise UnknownCase(
            f"{text} is a file, and this takes the suite's cases alone; a file of your own goes to "
            f"`framebench try {text}`, or to explain, predict, max-batch, grow, versions compare and versions bisect. "
            f"`try` has --device for a card that is not here"
        )
    return text


def select(selector: str, size: str = DEFAULT_SIZE, among: list[Case] | None = None, ranks: bool = False) -> list[Case]:
    """Cases that match `workload/framework/scenario/strategy/bN/size`; parts may be globs or `{a,b}`, missing ones mean all.

    With `ranks`, cases over ranks are meant where a strategy over ranks is named, or ranks as in `b4x2`. A missing size means
    `size`. A combination `a+b` that is in no profile may be asked for by name. Raises UnknownCase naming the first part that
    nothing matches, with the valid values.
    """
    no_file(selector)
    if braces := re.search(r"\{([^{}]*)\}", selector):
        each = (selector.replace(braces[0], choice, 1) for choice in braces[1].split(","))
        return list(dict.fromkeys(case for one in each for case in select(one, size, among, ranks)))
    parts = selector.strip("/").split("/")
    if len(parts) > 6:
        raise UnknownCase(f"{selector!r} has {len(parts)} parts; a case is workload/framework/scenario/strategy/bN/size")
    patterns = [p or "*" for p in parts] + ["*"] * (6 - len(parts))
    if len(parts) < 6:
        patterns[5] = "*" if among else size
    if (several := asks_for_ranks(selector)) and not ranks:
        raise UnknownCase(f"{selector!r} is over ranks, which only run, plan, list, show, report and predict take")
    matching_cases = list(among or (over_ranks() if several else every_case()))
    if "+" in patterns[3]:
        patterns[3], asked = _combination(patterns[2], patterns[3])
        matching_cases += [c for c in asked if c not in matching_cases]
    # the size restricts which batches exist, so it is matched first
    order = (("workload", 0), ("framework", 1), ("scenario", 2), ("strategy", 3), ("size", 5), ("batch", 4))
    for name, place in order:
        valid = dict.fromkeys(case.id.split("/")[place] for case in matching_cases)
        matching_cases = [c for c in matching_cases if fnmatchcase(c.id.split("/")[place], patterns[place])]
        if not matching_cases:
            suggestions = few(list(valid), patterns[place])
            said = f"no {name} {patterns[place]!r} in {selector!r}; choose from: {suggestions}"
            raise UnknownCase(f"{said}{_misplaced(patterns[place], place)}")
    return matching_cases


def _misplaced(asked: str, place: int) -> str:
    """Where a part belongs that is right but for its place."""
    kinds = {"framework": FRAMEWORKS, "scenario": SCENARIOS, "strategy": {name for _, name in STRATEGIES}}
    right = [(kind, at) for at, (kind, valid) in enumerate(kinds.items(), 1) if asked in valid and at != place]
    return "".join(f". {asked!r} is a {kind}: write '{'*/' * at}{asked}'" for kind, at in right[:1])


def few(valid: Sequence[str], asked: str, between: str = ", ") -> str:
    """What could be meant, the likest first, in a line that can be read: all of a few, of many some and how many there are."""
    if len(valid) <= FEW:
        return between.join(valid)
    near = get_close_matches(asked, valid, FEW, cutoff=0.5)
    shown = [*near, *(name for name in valid if name not in near)][:FEW]
    return f"{between.join(shown)} and {len(valid) - FEW} more"


def asks_for_ranks(selector: str) -> bool:
    """Whether it names, rightly or wrongly, a strategy over ranks, or a number of ranks."""
    _, _, _, strategy, batch, *_ = [*selector.strip("/").split("/"), *[""] * 5]
    return not {name for _, name in OVER_RANKS}.isdisjoint(strategy.split("+")) or "x" in batch


def _combination(scenarios: str, name: str) -> tuple[str, list[Case]]:
    """The proper name of `b+a`, and its cases in the scenarios where it makes sense. Raises UnknownCase."""
    reasons: list[str] = []
    for scenario in SCENARIOS:
        if not fnmatchcase(scenario, scenarios):
            continue
        try:
            plan = find_strategy(scenario, name)
        except KeyError as error:
            suggestions = few([s for where, s in STRATEGIES if where == scenario], error.args[0][1])
            reasons.append(f"no strategy {error.args[0][1]!r} in {scenario}; choose from: {suggestions}")
        except IncompatibleStrategies as error:
            reasons.append(str(error))
        else:
            cases = (
                Case(w, f, scenario, plan.name, b, size, ranks)
                for w in spec.list_workloads()
                for size, preset in spec.load_workload(w).sizes.items()
                for f in FRAMEWORKS
                for b in preset.batches
                for ranks in (RANKS if plan.over_ranks else (1,))
            )
            return plan.name, [c for c in cases if declared(c)]
    raise UnknownCase(reasons[0] if reasons else f"no scenario {scenarios!r}; choose from: {', '.join(SCENARIOS)}")


def parse(case_id: str) -> Case:
    """The one case with this full id. Raises UnknownCase. A model of the user's own is in no profile."""
    if case_id.startswith(f"{spec.USER_MODEL}/"):
        return Case.of(case_id)
    if case_id in by_id():
        return by_id()[case_id]
    matching_cases = select(case_id, ranks=True)
    if len(matching_cases) != 1:
        raise UnknownCase(
            f"{case_id!r} names {len(matching_cases)} cases, not one; give all six parts, as in {matching_cases[0].id}"
        )
    return matching_cases[0]
