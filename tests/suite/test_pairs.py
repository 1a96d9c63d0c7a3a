"""Test that every pair of strategies that the registry allows is refused with a reason, or is right
and confirms both effects.

Strategies over ranks are left out, and those that need a GPU are skipped without one. Strategies
that need environment variables before the framework is imported get a process each.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from itertools import combinations
from typing import Any

import pytest

from framebench.engine.environments import Environment
from framebench.records.provenance import ROOT
from framebench.strategies.registry import SCENARIOS, STRATEGIES, find_strategy
from framebench.strategies.strategy import (
    FRAMEWORKS,
    IncompatibleStrategies,
    Native,
    Strategy,
    combine_support,
    use_everywhere,
)
from framebench.suite.case import Case
from tests.marks import needs_gpu
from tests.processes import RUN_AND_EXIT, get_compilation_caches
from tests.suite.chosen_cases import PROGRAM, can_share_a_process, explain_wrong
from tests.suite.pairs import choose_sample, list_pairs, was_broken

# of pairs that were once wrong, and of all others: some seconds of each
SAMPLE = {"torch": (3, 3), "jax": (2, 2), "jittor": (1, 2)}
AT_ONCE = 40  # cases of one process: what was compiled for them stays in memory
PARTS = 16  # of all pairs of a framework, each a test


def verify_cases(environment: Environment, cases: list[Case]) -> dict[str, dict[str, Any]]:
    """Verify the cases, and return what became of each by its id.

    There is nothing of those that ended their process.
    """
    # PyTorch's cache of traced graphs forgets which attention kernels are allowed
    # (pytorch/pytorch#185449): `compile` undid `compile+sdpa_math` after it
    variables = {"TORCHINDUCTOR_AUTOGRAD_CACHE": "0", "OMP_NUM_THREADS": "1"}
    variables |= environment.list_variables() | get_compilation_caches() | cases[0].support.env
    found = {}
    for start in range(0, len(cases), AT_ONCE):
        ids = [case.id for case in cases[start : start + AT_ONCE]]
        done = subprocess.run(
            [str(environment.python), "-P", str(RUN_AND_EXIT), str(PROGRAM), "--steps", *ids],
            env=os.environ | variables | {"PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith('{"case"')]
        assert lines, done.stderr[-4000:]
        for line in lines:
            row = json.loads(line)
            found[row["case"]] = row
    return found


def explain_fault(case: Case, found: dict[str, Any] | None) -> str | None:
    """Return what is wrong with what became of a case; None if nothing is."""
    if found is None:
        return "its process ended"
    if "refused" in found:
        why = found["refused"]
        unnamed = [part.name for part in case.strategy_spec.parts if part.name not in why]
        return f"refused without naming {', '.join(unnamed)}: {why}" if unnamed else None
    if "error" in found:
        return str(found["error"])
    return explain_wrong(case, found)


def assert_refused_or_right(environment: Environment, cases: list[Case]) -> None:
    """Assert that each case is refused with a reason, or right and proven."""
    found = verify_cases(environment, cases) if cases else {}
    faults = {}
    for case in cases:
        fault = explain_fault(case, found.get(case.id))
        if fault:
            faults[case.id] = fault
    assert faults == {}


def list_sharing(framework: str) -> list[Case]:
    """Return the pairs that one process can build after each other."""
    return [case for case in list_pairs(framework) if can_share_a_process(case)]


def test_a_refusal_of_the_registry_names_both_and_says_why():
    refusals = 0
    for scenario in SCENARIOS:
        names = [name for where, name in STRATEGIES if where == scenario]
        for pair in combinations(names, 2):
            try:
                find_strategy(scenario, "+".join(pair))
            except IncompatibleStrategies as error:
                refusals += 1
                first, second = pair
                name, _, why = str(error).partition(": ")
                assert first in name
                assert second in name
                assert len(why) > 20, (pair, why)
    assert refusals > 100


def test_the_registry_takes_most_pairs():
    """A rule that refuses more than it should would leave nothing to build."""
    assert sum(len(list_pairs(framework)) for framework in FRAMEWORKS) > 2000


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        ({"env": {"POOL": "1"}}, {"env": {"POOL": "2"}}, "one and other each set POOL"),
        (
            {"package": "deepspeed"},
            {"package": "apex"},
            "one and other need environments of their own",
        ),
        ({"env": {"POOL": "1"}}, {"env": {"POOL": "1", "SIZE": "2"}}, ""),
    ],
)
def test_cells_that_exclude_each_other_name_both(one, other, why):
    strategies = []
    for name, options in (("one", one), ("other", other)):
        support = use_everywhere(Native("", **options))
        strategies.append(Strategy(name, ("train",), name, "", "", support))
    support = combine_support("torch", tuple(strategies))
    assert (support.supported, support.why) == (not why, why)
    assert support.env == ({} if why else {"POOL": "1", "SIZE": "2"})


@pytest.mark.slow
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_some_pairs_are_refused_or_right_and_proven(framework, environment):
    small = [
        case
        for case in list_sharing(framework)
        if case.size == "tiny" and not case.strategy_spec.compiles
    ]
    broken = [case for case in small if was_broken(case)]
    others = [case for case in small if not was_broken(case)]
    broken_count, other_count = SAMPLE[framework]
    chosen = choose_sample(broken, broken_count) + choose_sample(others, other_count)
    assert chosen
    assert_refused_or_right(environment[framework], chosen)


@pytest.mark.all_cases
@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_pair_is_refused_or_right_and_proven(framework, part, environment):
    assert_refused_or_right(environment[framework], list_sharing(framework)[part::PARTS])


@pytest.mark.all_cases
@pytest.mark.slow
@pytest.mark.parametrize("gpu", [False, pytest.param(True, marks=[pytest.mark.gpu, needs_gpu])])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_pairs_that_need_environment_variables_or_a_gpu(framework, gpu, environment):
    """Pairs that need the same variables share a process."""
    groups = defaultdict(list)
    for case in list_pairs(framework):
        if case.support.gpu == gpu and (gpu or case.support.env):
            groups[str(sorted(case.support.env.items()))].append(case)
    for cases in groups.values():
        assert_refused_or_right(environment[framework], cases)
