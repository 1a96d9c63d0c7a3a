"""The strategy table is total; every supported case computes the right thing and proves its effect,
in its framework.
"""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from framebench.engine import environments
from framebench.engine.environments import Environment
from framebench.instruments import nvml
from framebench.models.spec import list_workloads, load_workload
from framebench.strategies.registry import (
    BASELINES,
    COMBINATIONS,
    SCENARIOS,
    STRATEGIES,
    find_strategy,
    list_claims_only,
    list_strategies,
    list_used,
)
from framebench.strategies.strategy import FRAMEWORKS, Native, Strategy, Support
from framebench.suite.case import Case
from framebench.suite.profiles import list_cases
from framebench.worker.mathematics import QUANTIZED
from tests.processes import ROOT, quickly, run_inside
from tests.suite.chosen_cases import (
    choose_fewest,
    choose_often,
    list_supported,
    list_usual,
    shares_a_process,
)

PROGRAMS = Path(__file__).parent / "programs"
MEASURE = PROGRAMS / "strategies_measure.py"
COVERAGE = (
    "strategies",
    "pairs",
    "kinds of support",
    "switches",
    "switches of a scenario",
    "baselines",
)
WRITTEN = [
    (name, framework) for name in list_workloads() for framework in load_workload(name).frameworks
]


def measure(environment: Environment, cases: list[Case], **variables: str) -> dict[str, Any]:
    """Run the cases' first steps, and return what became of each by its id."""
    rows = run_inside(environment, MEASURE, *(c.id for c in cases), variables=quickly() | variables)
    assert isinstance(rows, dict)
    return rows


def assert_right_and_confirmed(results: dict[str, Any], cases: list[Case]) -> None:
    """Assert that every case was right, in its precision and in float64, and proved its effect."""
    assert set(results) == {case.id for case in cases}
    errors = {case: result["error"] for case, result in results.items() if "error" in result}
    assert errors == {}
    for name in ("verification", "mathematics"):
        checks = {case: result[name] for case, result in results.items()}
        assert {case: check for case, check in checks.items() if not check["passed"]} == {}
    not_computed = {}
    wrong_proofs = {}
    for case in cases:
        result = results[case.id]
        if not result["mathematics"]["computed"] and not is_quantized(case):
            not_computed[case.id] = result["mathematics"]["reason"]
        # where the catalog says that a CPU undoes it, a proof that says yes is as wrong as one that
        # says no elsewhere
        is_undone = bool(case.support.undone_on_cpu) and result["on_cpu"]
        if result["proven"] == is_undone:
            wrong_proofs[case.id] = result["evidence"]
    assert not_computed == {}
    assert wrong_proofs == {}


def is_quantized(case: Case) -> bool:
    """Say whether a strategy's arithmetic is the strategy itself: in float64 nothing of it is
    left.
    """
    return any(part.precision in QUANTIZED for part in case.plan.parts)


def test_a_missing_cell_stops_the_import() -> None:
    with pytest.raises(ValueError, match="no support for jax, jittor"):
        Strategy("new", ("train",), "axis", "", "", {"torch": Native("")})


def test_the_table_is_total_and_gives_reasons() -> None:
    for strategy in STRATEGIES.values():
        assert set(strategy.support) == set(FRAMEWORKS)
        assert all(len(support.why) > 5 for support in strategy.support.values())
        assert strategy.effect
    assert all((scenario, name) in STRATEGIES for scenario, name in BASELINES.items())
    assert all(
        find_strategy(scenario, name).name == name
        for scenario, found in COMBINATIONS.items()
        for name in found
    )


def test_every_strategy_is_in_one_of_the_two_catalogs() -> None:
    for scenario in SCENARIOS:
        assert sorted((*list_used(scenario), *list_claims_only(scenario))) == sorted(
            list_strategies(scenario)
        )
        assert BASELINES[scenario] in list_used(scenario)
    assert all(not s.quick for s in STRATEGIES.values() if s.only_for_claims), (
        "the quick profile is of what people use"
    )


@pytest.mark.parametrize(
    ("name", "expected"), [("checkpoint+depth_4", True), ("checkpoint+accumulate", False)]
)
def test_a_combination_with_a_part_only_for_claims_is_so_too(name: str, expected: bool) -> None:
    assert find_strategy("train", name).only_for_claims is expected
    assert (name in list_claims_only("train")) is expected


def test_every_strategy_has_a_case_somewhere_and_every_variant_is_declared() -> None:
    cases = {(case.scenario, case.strategy) for case in list_cases()}
    for scenario in SCENARIOS:
        declared = {strategy for where, strategy in cases if where == scenario}
        assert declared == set(list_strategies(scenario))
    variants = set()
    for name in list_workloads():
        variants |= set(load_workload(name).variants)
    assert variants >= {strategy.variant for strategy in STRATEGIES.values() if strategy.variant}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_supported_case_is_measured_below_or_needs_a_gpu(framework: str) -> None:
    """No silent gap: a strategy without a small case would be tested nowhere."""
    covered = {(case.scenario, case.strategy) for case in list_supported(framework)}
    for case in list_cases():
        if case.framework == framework and case.support.gpu:
            covered.add((case.scenario, case.strategy))
    for case in list_cases():
        is_single = (case.scenario, case.strategy) in STRATEGIES
        if case.framework == framework and is_single and case.support.supported:
            assert (case.scenario, case.strategy) in covered, case.id


def list_coverage(cases: list[Case], framework: str) -> dict[str, set[object]]:
    """Return what the cases show: strategies, but for numbers in their names or options; pairs;
    kinds of support; switches; baselines."""
    coverage: dict[str, set[object]] = {name: set() for name in COVERAGE}
    for case in cases:
        names = [part.name for part in case.plan.parts]
        if len(names) == 1:
            coverage["strategies"].add(case.strategy.rstrip("0123456789").rstrip("_"))
        coverage["pairs"] |= {(case.scenario, *pair) for pair in combinations(names, 2)}
        for part in case.parts:
            options = re.sub(r"\b\d+\b", "a number", str(part.options))
            coverage["kinds of support"].add((part.how, part.support[framework].kind))
            coverage["switches"].add((part.how, options))
            coverage["switches of a scenario"].add((case.scenario, part.how))
        if case.scenario in ("train", "eval") and case.strategy == BASELINES[case.scenario]:
            coverage["baselines"].add((case.workload, case.scenario))
    return coverage


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_fewest_cases_leave_no_strategy_out(framework: str) -> None:
    few = choose_fewest(framework)
    assert list_coverage(few, framework) == list_coverage(list_usual(framework), framework)
    assert len(few) < 0.6 * len(list_supported(framework))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_no_switch_of_a_framework_is_left_out(framework: str) -> None:
    """Whatever its adapter enters as a switch is run, or needs a GPU or a process of its own."""
    switches = set()
    for file in (ROOT / "framebench/adapters" / framework).glob("*.py"):
        if file.name != "ranks.py":
            switches |= set(re.findall(r"^@switch\ndef (\w+)", file.read_text(), re.MULTILINE))
    covered = {part.how for case in choose_fewest(framework) for part in case.parts}
    for case in list_cases():
        for part in case.plan.parts:
            if case.framework == framework and is_special(part.support[framework]):
                covered.add(part.how)
    assert switches
    assert switches - covered == set()


def is_special(support: Support) -> bool:
    """Say whether a case needs a GPU, or a process of its own."""
    return support.supported and (support.gpu or bool(support.env))


def test_a_batch_that_does_not_divide_is_unsupported() -> None:
    assert not Case("unet3d", "torch", "train", "accumulate", 2, "full").support.supported


@pytest.mark.slow
@pytest.mark.parametrize(("name", "framework"), WRITTEN)
def test_every_strategy_is_right_and_confirmed(
    name: str, framework: str, environment: dict[str, Environment]
) -> None:
    cases = [c for c in choose_often(framework) if c.workload == name]
    results = measure(environment[framework], cases)
    assert_right_and_confirmed(results, cases)


@pytest.mark.all_cases
@pytest.mark.slow
@pytest.mark.parametrize(("name", "framework"), WRITTEN)
def test_the_other_strategies_are_right_and_confirmed(
    name: str, framework: str, environment: dict[str, Environment]
) -> None:
    above = choose_often(framework)
    cases = [
        c
        for c in list_supported(framework)
        if c.workload == name and shares_a_process(c) and c not in above
    ]
    results = measure(environment[framework], cases)
    assert_right_and_confirmed(results, cases)


def make_param(case: Case) -> ParameterSet:
    """Return the parameter of a case whose variables must precede the import.

    It is tested in one workload. Jittor's core is built anew for them, which takes minutes: where
    that has not happened yet, it is for `make test-all`, too.
    """
    home = environments.describe(case.framework).home
    name = case.support.env.get("cache_name")
    is_built = bool(home and name and list(home.glob(f".cache/jittor/jt*/*/*/*/*/*/{name}")))
    is_quick = is_built and case.workload == "transformer"
    return pytest.param(case, id=case.id, marks=() if is_quick else pytest.mark.all_cases)


WITH_ENVIRONMENT_VARIABLES = [
    make_param(case)
    for framework in FRAMEWORKS
    for case in list_supported(framework)
    if case.support.env and not case.support.gpu
]


@pytest.mark.slow
@pytest.mark.parametrize("case", WITH_ENVIRONMENT_VARIABLES)
def test_strategies_that_need_environment_variables_are_right_and_confirmed(
    case: Case, environment: dict[str, Environment]
) -> None:
    results = measure(environment[case.framework], [case], **case.support.env)
    assert_right_and_confirmed(results, [case])


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.skipif(not nvml.list_gpus(), reason="needs a GPU")
@pytest.mark.parametrize(
    "case", [c for f in FRAMEWORKS for c in list_supported(f) if c.support.gpu], ids=lambda c: c.id
)
def test_strategies_that_need_a_gpu_are_right_and_confirmed(
    case: Case, environment: dict[str, Environment]
) -> None:
    results = measure(environment[case.framework], [case], **case.support.env)
    assert_right_and_confirmed(results, [case])
