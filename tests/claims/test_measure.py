"""The small measurements behind some claims: known sizes come out, and what does not exist is not
found.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from framebench.budget.max_batch import oom_recovery
from framebench.budget.max_batch.oom_recovery import Evaluation, Recovery
from framebench.claims import measure as claim_probes
from framebench.claims.probes import inputs as input_probe
from framebench.claims.probes import monitor as monitor_probe
from framebench.claims.probes.names import exists, look_up
from framebench.claims.registry import REGISTRY
from framebench.engine.environments import Environment
from framebench.engine.runner import Options
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case
from framebench.suite.selectors import parse
from tests.processes import ROOT, run_inside

CASE = Case("transformer", "torch", "eval", "no_grad", 64, "tiny")


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("json.loads", True),
        ("json.decoder.JSONDecoder", True),
        ("concurrent.futures", True),  # a module that nobody has imported yet
        ("json.no_such_name", False),
        ("json.no_such_name.loads", False),
    ],
)
def test_names_are_looked_up(path: str, there: bool) -> None:
    assert exists(path) == there


def test_a_word_is_searched_in_every_module_that_is_imported() -> None:
    found = look_up(["json.**decode**", "json.**checkpoint**", "json.loads"])
    assert (found["json.**decode**"], found["json.**checkpoint**"], found["json.loads"]) == (
        True,
        False,
        True,
    )
    assert {
        "json.JSONDecoder",
        "json.JSONDecoder.decode",
        "json.decoder.JSONDecoder",
    } <= found.keys(), "what was found is said"


@pytest.mark.skipif(
    not any(os.access(root, os.W_OK) for root in input_probe.GROUPS),
    reason="needs the right to make a control group",
)
def test_a_list_is_private_memory_and_a_mapped_file_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_probes, "ROUNDS", 1)
    found = {name: values[0] for name, values in claim_probes.measure_inputs().items()}
    size = input_probe.BATCHES * input_probe.BATCH_BYTES
    for name in ("listed_resident", "listed_private", "mapped_resident"):
        assert found[name] == pytest.approx(size, rel=0.02), name
    assert found["mapped_private"] < 0.02 * size
    assert found["mapped_batches"] == found["batches"], "the kernel takes pages of a file back"
    assert 0.4 < found["listed_batches"] / found["batches"] < 0.6, "half of them fit"


def evaluation(lost: int, budget: int | None) -> Evaluation:
    found = Evaluation(4, {i: 1.0 for i in range(4 - lost)}, peaks={"host.rss": 2**30})
    if budget is not None:
        found.recoveries.append(Recovery(0, 4, "in the process", "no memory"))
    return found


def test_the_budget_is_a_part_of_what_the_whole_batch_needs(
    environment_of_nothing: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    budgets: list[int | None] = []

    def evaluate(case: Case, samples: int, budget: int | None, run: Any) -> Evaluation:
        budgets.append(budget)
        return evaluation(1 if budget else 0, budget)

    monkeypatch.setattr(oom_recovery, "evaluate", evaluate)
    found = claim_probes.measure_halving(CASE, environment_of_nothing, Options())
    assert budgets == [None, int(claim_probes.BUDGET_SHARE * 2**30)]
    assert found == {
        "lost": [1.0],
        "done_twice": [0.0],
        "recoveries": [1.0],
        "budget_bytes": [claim_probes.BUDGET_SHARE * 2**30],
    }


def test_an_evaluation_that_fails_without_a_limit_is_no_result(
    environment_of_nothing: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oom_recovery, "evaluate", lambda *_: Evaluation(4, failure="it broke"))
    with pytest.raises(RuntimeError, match="it broke"):
        claim_probes.measure_halving(CASE, environment_of_nothing, Options())


@pytest.fixture
def environment_of_nothing() -> Environment:
    return Environment("torch", "0", Path("/nonexistent/python"))


@pytest.mark.slow
@pytest.mark.all_cases
def test_the_monitor_sees_steps_of_a_real_case(
    environment: dict[str, Environment], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_probes, "STEPS", 4)
    monkeypatch.setattr(claim_probes, "MONITOR_ROUNDS", 2)
    found = claim_probes.measure_monitor(
        parse("transformer/torch/train/fp32/b4/tiny"), environment["torch"]
    )
    shares = {name: values for name, values in found.items() if not name.endswith("_readings")}
    assert set(shares) == set(monitor_probe.WAYS)
    for name, values in shares.items():
        # the kernel adds up its counters with some pages' delay
        assert all(0.1 < share <= 1.01 for share in values), name
        assert min(found[f"{name}_readings"]) > 0, name
    assert found["before_each_step_readings"] == [4.0, 4.0], "one before each step"


@pytest.mark.slow
@pytest.mark.all_cases
def test_only_the_case_collects(
    environment: dict[str, Environment], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_probes, "ROUNDS", 1)
    monkeypatch.setattr(claim_probes, "COLLECTED_STEPS", 4)
    found = claim_probes.measure_collectors(
        parse("transformer/torch/train/fp32/b4/tiny"), environment["torch"]
    )
    often = {
        name: values
        for name, values in found.items()
        if name.endswith("collections") and not name.startswith("fp32")
    }
    assert often == {
        "gc_off_collections": [0.0],
        "gc_every_1_collections": [4.0],
        "gc_every_2_collections": [2.0],
    }
    assert all(values[0] > 0 for name, values in found.items() if name.endswith("bytes"))


def test_every_report_has_its_program() -> None:
    """And every program its report; where they are is data to the claims."""
    asked = {
        arm.measure.probe
        for claim in REGISTRY.claims
        if claim.source == "R"
        for arm in claim.measurements
    }
    files = {
        framework: ROOT / "framebench/claims" / f"{framework}_reports.py"
        for framework in FRAMEWORKS
    }
    programs = {
        f"report-{framework}-{number}"
        for framework, file in files.items()
        for number in re.findall(r'^    "(\d+)": ', file.read_text(), re.M)
    } | {"report-jittor-602"}
    assert asked - {""} == programs


def test_the_profiler_counts_what_a_step_allocates(environment: dict[str, Environment]) -> None:
    """Two megabytes held at once, of three that are made."""
    program = Path(__file__).parent / "programs" / "measure_allocated.py"
    assert run_inside(environment["torch"], program) == 2 * 2**20


def test_a_report_is_tried_in_fresh_processes(
    environment: dict[str, Environment], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_probes, "ROUNDS", 1)
    found = claim_probes.try_report(environment["jax"], "27748")
    steps = 4 * 300 * 100  # bytes of the state that each step keeps, where all are kept
    assert found["plain"][0] == pytest.approx(1000 * steps, rel=0.01)
    assert found["in_a_loop"][0] < 0.2 * found["plain"][0]
