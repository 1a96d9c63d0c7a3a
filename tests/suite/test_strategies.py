"""The strategy table is total; every supported cell computes the right thing and proves its effect, in its framework."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from framebench.engine import environments
from framebench.engine.environments import Environment
from framebench.instruments import nvml
from framebench.models.spec import list_workloads as workloads
from framebench.models.spec import load_workload
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
from framebench.strategies.strategy import FRAMEWORKS, Cell, Native, Strategy
from framebench.suite.case import Case
from framebench.suite.profiles import list_cases
from framebench.suite.selectors import parse
from framebench.worker.mathematics import QUANTIZED
from tests.processes import ROOT, quickly, run_inside
from tests.suite.cells import every, fewest, often, shares_a_process, usual

PROGRAMS = Path(__file__).parent / "programs"
MEASURE = PROGRAMS / "strategies_measure.py"
WRITTEN = [(name, framework) for name in workloads() for framework in load_workload(name).frameworks]


def measured(environment: Environment, cases: list[Case], **variables: str) -> dict[str, Any]:
    rows = run_inside(environment, MEASURE, *(c.id for c in cases), variables=quickly() | variables)
    assert isinstance(rows, dict)
    return rows


def check(rows: dict[str, Any], cases: list[Case]) -> None:
    assert set(rows) == {c.id for c in cases}
    assert {i: r["error"] for i, r in rows.items() if "error" in r} == {}
    assert {i: r["verification"] for i, r in rows.items() if not r["verification"]["passed"]} == {}
    assert {i: r["mathematics"] for i, r in rows.items() if not r["mathematics"]["passed"]} == {}
    not_computed = [i for i, r in rows.items() if not r["mathematics"]["computed"] and not computed_otherwise(i)]
    assert {i: rows[i]["mathematics"]["reason"] for i in not_computed} == {}
    # where the catalog says that a CPU undoes it, a proof that says yes is as wrong as one that says no elsewhere
    undone = {c.id: bool(c.support.undone_on_cpu) and rows[c.id]["on_cpu"] for c in cases}
    assert {i: r["evidence"] for i, r in rows.items() if r["proven"] == undone[i]} == {}


def computed_otherwise(case_id: str) -> bool:
    """Say whether a strategy's arithmetic is the strategy itself, so that nothing of it is left in float64."""
    return any(part.precision in QUANTIZED for part in parse(case_id).plan.parts)


def test_a_missing_cell_stops_the_import() -> None:
    with pytest.raises(ValueError, match="no cell for jax, jittor"):
        Strategy("new", ("train",), "axis", "", "", {"torch": Native("")})


def test_the_table_is_total_and_gives_reasons() -> None:
    for strategy in STRATEGIES.values():
        assert set(strategy.cells) == set(FRAMEWORKS)
        assert all(len(cell.why) > 5 for cell in strategy.cells.values())
        assert strategy.effect
    assert all((scenario, name) in STRATEGIES for scenario, name in BASELINES.items())
    assert all(find_strategy(scenario, name).name == name for scenario, found in COMBINATIONS.items() for name in found)


def test_every_strategy_is_in_one_of_the_two_catalogs() -> None:
    for scenario in SCENARIOS:
        assert sorted((*list_used(scenario), *list_claims_only(scenario))) == sorted(list_strategies(scenario))
        assert BASELINES[scenario] in list_used(scenario)
    assert all(not s.quick for s in STRATEGIES.values() if s.only_for_claims), "the quick profile is of what people use"


@pytest.mark.parametrize(("name", "expected"), [("checkpoint+depth_4", True), ("checkpoint+accumulate", False)])
def test_a_combination_with_a_part_only_for_claims_is_so_too(name: str, expected: bool) -> None:
    assert find_strategy("train", name).only_for_claims is expected
    assert (name in list_claims_only("train")) is expected


def test_every_strategy_has_a_case_somewhere_and_every_variant_is_declared() -> None:
    cases = {(c.scenario, c.strategy) for c in list_cases()}
    assert cases == {(scenario, name) for scenario in SCENARIOS for name in list_strategies(scenario)}
    assert {v for w in workloads() for v in load_workload(w).variants} >= {s.variant for s in STRATEGIES.values() if s.variant}


def test_every_supported_cell_is_measured_below_or_needs_a_gpu() -> None:
    """No silent gap: a cell without a small case would be tested nowhere."""
    for framework in FRAMEWORKS:
        tested = {(c.scenario, c.strategy) for c in every(framework)}
        gpu = {(c.scenario, c.strategy) for c in list_cases() if c.framework == framework and c.support.gpu}
        for (scenario, name), strategy in STRATEGIES.items():
            cases = [c for c in list_cases() if (c.framework, c.scenario, c.strategy) == (framework, scenario, name)]
            if any(c.support.supported for c in cases):
                assert (scenario, name) in tested | gpu, f"{framework}: {strategy.name}"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_fewest_cells_leave_no_strategy_out(framework: str) -> None:
    """Of what is usual: strategies, but for a number in their names or options; pairs; kinds of cells; switches."""
    all_of_them, few = usual(framework), fewest(framework)

    def seen(cases: Iterable[Case]) -> dict[str, set[object]]:
        cases = list(cases)
        return {
            "strategies": {c.strategy.rstrip("0123456789").rstrip("_") for c in cases if len(c.plan.parts) == 1},
            "pairs": {(c.scenario, *pair) for c in cases for pair in combinations([p.name for p in c.plan.parts], 2)},
            "kinds of cells": {(p.how, p.cells[framework].kind) for c in cases for p in c.parts},
            "switches": {(p.how, re.sub(r"\b\d+\b", "a number", str(p.options))) for c in cases for p in c.parts},
            "switches of a scenario": {(c.scenario, p.how) for c in cases for p in c.parts},
            "baselines": {
                (c.workload, c.scenario)
                for c in cases
                if c.scenario in ("train", "eval") and c.strategy == BASELINES[c.scenario]
            },
        }

    assert seen(few) == seen(all_of_them)
    assert len(few) < 0.6 * len(every(framework))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_no_switch_of_a_framework_is_left_out(framework: str) -> None:
    """Whatever its adapter enters as a switch is run, or a row says that it needs a GPU or a process of its own."""
    ours = ROOT / "framebench"
    sources = [file for file in (ours / "adapters" / framework).glob("*.py") if file.name != "ranks.py"]
    switches = {name for file in sources for name in re.findall(r"^@switch\ndef (\w+)", file.read_text(), re.MULTILINE)}
    run = {part.how for case in fewest(framework) for part in case.parts}
    elsewhere = {p.how for c in list_cases() if c.framework == framework for p in c.plan.parts if special(p.cells[framework])}
    assert switches
    assert switches - run - elsewhere == set()


def special(cell: Cell) -> bool:
    return cell.supported and (cell.gpu or bool(cell.env))


def test_a_batch_that_does_not_divide_is_unsupported() -> None:
    assert not Case("unet3d", "torch", "train", "accumulate", 2, "full").support.supported


@pytest.mark.slow
@pytest.mark.parametrize(("name", "framework"), WRITTEN)
def test_every_strategy_is_right_and_proven(name: str, framework: str, environment: dict[str, Environment]) -> None:
    cases = [c for c in often(framework) if c.workload == name]
    check(measured(environment[framework], cases), cases)


@pytest.mark.all_cells
@pytest.mark.slow
@pytest.mark.parametrize(("name", "framework"), WRITTEN)
def test_the_other_cells_are_right_and_proven(name: str, framework: str, environment: dict[str, Environment]) -> None:
    above = often(framework)
    cases = [c for c in every(framework) if c.workload == name and shares_a_process(c) and c not in above]
    check(measured(environment[framework], cases), cases)


def alone(case: Case) -> ParameterSet:
    """A cell whose variables must precede the import, in one workload. Jittor's core is built anew for them, which takes
    minutes: where that has not happened yet, it is for `make test-all`, too."""
    home, name = environments.describe(case.framework).home, case.support.env.get("cache_name")
    built = home and name and list(home.glob(f".cache/jittor/jt*/*/*/*/*/*/{name}"))
    return pytest.param(case, id=case.id, marks=() if built and case.workload == "transformer" else pytest.mark.all_cells)


@pytest.mark.slow
@pytest.mark.parametrize("case", [alone(c) for f in FRAMEWORKS for c in every(f) if c.support.env and not c.support.gpu])
def test_cells_that_need_a_process_of_their_own(case: Case, environment: dict[str, Environment]) -> None:
    check(measured(environment[case.framework], [case], **case.support.env), [case])


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.skipif(not nvml.list_gpus(), reason="needs a GPU")
@pytest.mark.parametrize("case", [c for f in FRAMEWORKS for c in every(f) if c.support.gpu], ids=lambda c: c.id)
def test_cells_that_need_a_gpu(case: Case, environment: dict[str, Environment]) -> None:
    check(measured(environment[case.framework], [case], **case.support.env), [case])
