"""Choose the cases that tests run, all of a framework or few that cover every strategy, and
verify them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from framebench.engine.environments import Environment
from framebench.models.spec import list_workloads, load_workload
from framebench.suite.case import Case
from framebench.suite.profiles import list_cases
from framebench.worker.mathematics import QUANTIZED
from tests.processes import get_compilation_caches, run_inside

PROGRAM = Path(__file__).parent / "programs" / "verify_cases.py"
BASELINES = ("train", "eval")  # scenarios whose baseline every workload must do right


def list_supported(framework: str) -> list[Case]:
    """Return every supported case of the tiny size, at the smallest batch that the strategy takes.

    Where the strategy is for larger models it is one of the next size.
    """
    found = {}
    for case in list_cases():
        is_for_larger = f"{case.workload}/{framework}/tiny" in case.strategy_spec.exceptions
        size = "cpu" if is_for_larger else "tiny"
        if case.framework == framework and case.size == size and case.support.supported:
            found.setdefault((case.workload, case.scenario, case.strategy), case)
    return list(found.values())


def choose_fewest(framework: str) -> list[Case]:
    """Return each strategy in its cheapest workload, and each workload's baselines.

    What needs a GPU, or a process with variables of its own, is left out, and so are combinations
    that only a claim asks for, or that are compiled.
    """
    chosen = {}
    for case in sorted(list_usual(framework), key=count_weights):
        key = (case.scenario, case.strategy)
        if case.scenario in BASELINES and case.strategy == case.scenario_spec.baseline:
            key = (*key, case.workload)
        chosen.setdefault(key, case)
    return list(chosen.values())


def choose_cases(framework: str, workload: str, is_rare: bool) -> list[Case]:
    """Return cases of a workload that one process can build.

    Of all workloads, those that are tested often cover every strategy; the others are the rest.
    """
    often = choose_often(framework)
    chosen = often
    if is_rare:
        together = [case for case in list_supported(framework) if can_share_a_process(case)]
        chosen = [case for case in together if case not in often]
    return [case for case in chosen if case.workload == workload]


def choose_often(framework: str) -> list[Case]:
    """Return the fewest cases, without those that PyTorch's cases cover for every framework.

    That is loading, which NumPy does, and what a claim alone asks for.
    """
    chosen = []
    for case in choose_fewest(framework):
        is_shared = case.scenario == "pipeline" or case.strategy_spec.only_for_claims
        if framework == "torch" or not is_shared or case.strategy == case.scenario_spec.baseline:
            chosen.append(case)
    return chosen


def list_usual(framework: str) -> list[Case]:
    """Return what one process can build, without costly combinations.

    These are the compiled ones, and those that only a claim asks for.
    """
    usual = []
    for case in list_supported(framework):
        is_combination = len(case.strategy_spec.parts) > 1
        is_costly = is_combination and (
            case.strategy_spec.only_for_claims or case.strategy_spec.compiles
        )
        if can_share_a_process(case) and not is_costly:
            usual.append(case)
    return usual


def can_share_a_process(case: Case) -> bool:
    """Return whether the case can be built in a process next to others, on a CPU."""
    return not case.support.gpu and not case.support.env


def count_weights(case: Case) -> int:
    """Return the number of weights: what a case costs is compilation, which grows with them."""
    return len(list(case.workload_spec.params(case.config)))


def verify_cases(
    environment: Environment, cases: list[Case], variables: dict[str, str] | None = None
) -> dict[str, Any]:
    """Run the cases' first steps and timed ones, and return what became of each by its id."""
    ids = [case.id for case in cases]
    rows = run_inside(
        environment, PROGRAM, *ids, variables=get_compilation_caches() | (variables or {})
    )
    assert set(rows) == set(ids)
    assert {case: row["error"] for case, row in rows.items() if "error" in row} == {}
    return rows


def find_faults(
    environment: Environment, cases: list[Case], variables: dict[str, str] | None = None
) -> dict[str, str]:
    """Return by case what is wrong with it, in its precision or in float64, or with its proof."""
    faults = {}
    for case_id, row in verify_cases(environment, cases, variables).items():
        fault = explain_wrong(Case.from_id(case_id), row)
        if fault:
            faults[case_id] = fault
    return faults


def list_written(framework: str) -> list[str]:
    """Return the workloads that are written for a framework."""
    return [name for name in list_workloads() if framework in load_workload(name).frameworks]


def explain_wrong(case: Case, row: dict[str, Any]) -> str | None:
    """Return what is wrong with a case that was verified; None if it is right and confirmed.

    `row` is what the program printed of it, with a check in float64 where it made one.
    """
    if not row["verification"]["passed"]:
        return f"wrong: {row['verification']}"
    mathematics = row.get("mathematics", {"passed": True, "computed": True})
    # in float64 nothing is left of a strategy whose arithmetic is the strategy itself
    is_quantized = any(part.precision in QUANTIZED for part in case.strategy_spec.parts)
    if not mathematics["passed"] or not (mathematics["computed"] or is_quantized):
        return f"in float64: {mathematics}"
    # where the catalog says that a CPU undoes it, a proof that says yes is as wrong as one that
    # says no elsewhere
    is_undone = bool(case.support.undone_on_cpu) and row["on_cpu"]
    if row["proven"] == is_undone:
        return f"proven: {row['proven']}, by {row['evidence']}"
    return None
