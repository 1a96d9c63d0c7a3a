"""The pairs of strategies that the registry takes, and which of them `make test` builds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from itertools import combinations

from framebench.engine.runner import without_reference
from framebench.models.spec import list_workloads, load_workload
from framebench.strategies.registry import SCENARIOS, STRATEGIES, find_strategy
from framebench.strategies.strategy import IncompatibleStrategies
from framebench.suite.case import Case, find_first_batch, is_declared
from tests.suite.cells import layers

# refused or made to compose once they had come out wrong: built whenever the registry takes them
ONCE_BROKEN = (
    "eval/channels_last+batch_stats", "eval/compile+grad", "eval/compile+lean_rule", "eval/compile+sdpa_math",
    "eval/compile+wasteful_rule", "eval/grad+batch_stats", "train/accumulate+chunked_loss", "train/accumulate+distill",
    "train/accumulate_2+scan", "train/checkpoint+jit_script", "train/checkpoint_dots+distill", "train/chunked_loss+distill",
    "train/multi_steps+mu_bf16", "train/no_fuse+rewrite", "train/no_jit+mu_bf16", "train/no_jit+no_donate",
    "train/optimizer_in_backward+adamw_8bit_bnb",
)  # fmt: skip


@cache
def pairs(framework: str) -> tuple[Case, ...]:
    """Each pair that is supported somewhere, in its cheapest workload and at the smallest size that has it."""
    found = []
    for scenario in SCENARIOS:
        names = [name for where, name in STRATEGIES if where == scenario]
        for pair in combinations(names, 2):
            try:
                plan = find_strategy(scenario, "+".join(pair))
            except IncompatibleStrategies:
                continue
            found += list(possible(framework, scenario, plan.name))[:1]
    return tuple(found)


def possible(framework: str, scenario: str, strategy: str) -> Iterator[Case]:
    for size in ("tiny", "cpu"):
        each = [Case(w, framework, scenario, strategy, load_workload(w).preset(size).base, size) for w in list_workloads()]
        each = [Case(c.workload, framework, scenario, strategy, find_first_batch(c), size) for c in each]
        yield from sorted((c for c in each if is_declared(c) and c.support.supported and not without_reference(c)), key=layers)


def sample(cases: list[Case], size: int) -> list[Case]:
    """The same ones every time, whatever other pairs there are."""
    return sorted(cases, key=lambda case: hashlib.sha256(case.id.encode()).digest())[:size]


def once_broken(case: Case) -> bool:
    return f"{case.scenario}/{case.strategy}" in ONCE_BROKEN
