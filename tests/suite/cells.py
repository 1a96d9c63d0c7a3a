"""Which cells of the table the tests run: `every` one of a framework, or the `fewest` that leave no strategy out."""

from __future__ import annotations

from itertools import combinations

from framebench.suite.case import Case
from framebench.suite.profiles import every_case

BASELINES = ("train", "eval")  # scenarios whose baseline every workload must do right


def every(framework: str) -> list[Case]:
    """Every supported case of the tiny size, at the smallest batch that the strategy can take; of the next size where the
    strategy is for larger models."""
    found: dict[tuple[str, ...], Case] = {}
    for case in every_case():
        size = "cpu" if f"{case.workload}/{framework}/tiny" in case.plan.exceptions else "tiny"
        if (case.framework, case.size) == (framework, size) and case.support.supported:
            found.setdefault((case.workload, case.scenario, case.strategy), case)
    return list(found.values())


def fewest(framework: str) -> list[Case]:
    """Each workload's baselines; each strategy in its cheapest workload; combinations as long as one has a pair that is new.

    A combination of three comes before those of two, whose pairs it may have. What needs a GPU, or a process with variables
    of its own, is left out, and so are combinations that only a claim asks for.
    """
    found: list[Case] = []
    seen: set[tuple[str, frozenset[str]]] = set()  # scenario, and a strategy or a pair
    for case in sorted(usual(framework), key=lambda c: (-len(c.plan.parts), layers(c))):
        names = [part.name for part in case.plan.parts]
        parts = {(case.scenario, frozenset(pair)) for pair in combinations(names, 2)} or {(case.scenario, frozenset(names))}
        if parts - seen or (case.scenario in BASELINES and case.strategy == case.stage.baseline):
            found.append(case)
            seen |= parts
    return found


def usual(framework: str) -> list[Case]:
    """What one process can build, without the combinations that only a claim asks for."""
    return [c for c in every(framework) if shares_a_process(c) and not (c.plan.only_for_claims and len(c.plan.parts) > 1)]


def shares_a_process(case: Case) -> bool:
    return not case.support.gpu and not case.support.env


def layers(case: Case) -> int:
    """Tensors of weights: what a case costs at this size is compilation, which grows with them."""
    return len(list(case.spec.params(case.config)))
