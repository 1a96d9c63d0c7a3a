"""Which cells of the table the tests run: `every` one of a framework, or the `fewest` that leave no strategy out."""

from __future__ import annotations

import re
from itertools import combinations

from framebench.strategies.strategy import Strategy
from framebench.suite.case import Case
from framebench.suite.profiles import list_cases

BASELINES = ("train", "eval")  # scenarios whose baseline every workload must do right


def every(framework: str) -> list[Case]:
    """Every supported case of the tiny size, at the smallest batch that the strategy can take; of the next size where the
    strategy is for larger models."""
    found: dict[tuple[str, ...], Case] = {}
    for case in list_cases():
        size = "cpu" if f"{case.workload}/{framework}/tiny" in case.plan.exceptions else "tiny"
        if (case.framework, case.size) == (framework, size) and case.support.supported:
            found.setdefault((case.workload, case.scenario, case.strategy), case)
    return list(found.values())


def fewest(framework: str) -> list[Case]:
    """Each workload's baselines; of strategies and combinations, in the cheapest workload, those with a `novelty` that is new.

    A combination of three comes before those of two, whose pairs it may have. What needs a GPU, or a process with variables
    of its own, is left out, and so are combinations that only a claim asks for, or that are compiled.
    """
    found: list[Case] = []
    seen: set[tuple[object, ...]] = set()
    for case in sorted(usual(framework), key=lambda c: (-len(c.plan.parts), layers(c))):
        new = novelties(case) - seen
        if new or (case.scenario in BASELINES and case.strategy == case.stage.baseline):
            found.append(case)
            seen |= new
    return found


def often(framework: str) -> list[Case]:
    """The `fewest`. Of loading, which NumPy does for every framework, and of what a claim alone asks for, PyTorch's if there
    is one."""
    if framework == "torch":
        return fewest(framework)
    there = {(c.scenario, c.strategy) for c in fewest("torch") if c.scenario == "pipeline" or c.plan.only_for_claims}
    return [c for c in fewest(framework) if (c.scenario, c.strategy) not in there or c.strategy == c.stage.baseline]


def novelties(case: Case) -> set[tuple[object, ...]]:
    """Of a combination its pairs. Of a strategy its name, but for a number at the end, and its switch, in each scenario."""
    if len(case.plan.parts) > 1:
        names = [part.name for part in case.plan.parts]
        return {("pair", case.scenario, frozenset(pair)) for pair in combinations(names, 2)}
    return {("strategy", stem(case.plan)), ("switch", case.scenario, *switched(case.plan), case.support.kind)}


def stem(strategy: Strategy) -> str:
    """The name without the number by which strategies of one kind differ: `accumulate` for `accumulate_8`."""
    return re.sub(r"_\d+$", "", strategy.name)


def switched(strategy: Strategy) -> tuple[object, ...]:
    """The function that switches it on, and which options it is given."""
    return (strategy.how, *sorted(strategy.options))


def usual(framework: str) -> list[Case]:
    """What one process can build, without the combinations that only a claim asks for, and those that are compiled."""
    left_out = [c for c in every(framework) if len(c.plan.parts) > 1 and (c.plan.only_for_claims or compiled(c))]
    return [c for c in every(framework) if shares_a_process(c) and c not in left_out]


def compiled(case: Case) -> bool:
    """By torch.compile, which takes a minute."""
    return any(part.how.startswith("compile") for part in case.parts)


def shares_a_process(case: Case) -> bool:
    return not case.support.gpu and not case.support.env


def layers(case: Case) -> int:
    """Tensors of weights: what a case costs at this size is compilation, which grows with them."""
    return len(list(case.spec.params(case.config)))
