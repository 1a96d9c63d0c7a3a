"""List the pairs of strategies that the registry takes, and choose those that `make test`
builds.
"""

from __future__ import annotations

import hashlib
from functools import cache
from itertools import combinations

from framebench.engine.runner import explain_missing_reference
from framebench.models.spec import list_workloads, load_workload
from framebench.strategies.registry import SCENARIOS, STRATEGIES, find_strategy
from framebench.strategies.strategy import IncompatibleStrategies
from framebench.suite.case import Case, find_first_batch, is_declared
from tests.suite.chosen_cases import count_weights

# refused or made to compose once they had come out wrong
ONCE_BROKEN = (
    "eval/channels_last+batch_stats",
    "eval/compile+grad",
    "eval/compile+lean_rule",
    "eval/compile+sdpa_math",
    "eval/compile+wasteful_rule",
    "eval/grad+batch_stats",
    "train/accumulate+chunked_loss",
    "train/accumulate+distill",
    "train/accumulate_2+scan",
    "train/amp_bf16+adafactor",
    "train/checkpoint+jit_script",
    "train/checkpoint_dots+distill",
    "train/chunked_loss+distill",
    "train/multi_steps+mu_bf16",
    "train/no_fuse+rewrite",
    "train/no_jit+mu_bf16",
    "train/no_jit+no_donate",
    "train/optimizer_in_backward+adamw_8bit_bnb",
)


@cache
def list_pairs(framework: str) -> tuple[Case, ...]:
    """Return each pair that is supported somewhere, in its cheapest workload and smallest size."""
    found = []
    for scenario in SCENARIOS:
        names = [name for where, name in STRATEGIES if where == scenario]
        for pair in combinations(names, 2):
            try:
                plan = find_strategy(scenario, "+".join(pair))
            except IncompatibleStrategies:
                continue
            case = find_cheapest(framework, scenario, plan.name)
            if case:
                found.append(case)
    return tuple(found)


def find_cheapest(framework: str, scenario: str, strategy: str) -> Case | None:
    """Return the supported case with fewest weights, at the smallest size that has one."""
    for size in ("tiny", "cpu"):
        cases = []
        for workload in list_workloads():
            base = load_workload(workload).preset(size).base
            at_base = Case(workload, framework, scenario, strategy, base, size)
            batch = find_first_batch(at_base)
            case = Case(workload, framework, scenario, strategy, batch, size)
            if is_declared(case) and case.support.supported and not explain_missing_reference(case):
                cases.append(case)
        if cases:
            return min(cases, key=count_weights)
    return None


def choose_sample(cases: list[Case], size: int) -> list[Case]:
    """Return some of the cases: the same ones every time, whatever other pairs there are."""
    return sorted(cases, key=lambda case: hashlib.sha256(case.id.encode()).digest())[:size]


def was_broken(case: Case) -> bool:
    """Return whether the pair failed verification once."""
    return f"{case.scenario}/{case.strategy}" in ONCE_BROKEN
