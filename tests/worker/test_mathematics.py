"""In float64 a right step agrees with the reference to many digits, and a wrong one does not."""

from __future__ import annotations

import copy
import errno
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import Mock

import pytest

from framebench.engine.environments import Environment
from framebench.models.spec import list_workloads, load_workload
from framebench.suite.result import Mathematics
from framebench.suite.selectors import parse
from framebench.worker import mathematics
from framebench.worker.mathematics import TOLERANCE, compare, explain_uncheckable
from framebench.worker.observe import Observed
from framebench.worker.tolerances import derive_tolerances
from framebench.worker.verification import find_reference
from tests.callbacks import ignore
from tests.processes import run_inside

PROGRAM = Path(__file__).parent / "programs" / "mathematics_planted.py"
ALIVE = Path(__file__).parent / "programs" / "mathematics_alive.py"
TRAIN = parse("transformer/torch/train/fp32/b4/tiny")
RIGHT = Mathematics(TRAIN.id, computed=True, passed=True)


def observe_right() -> Observed:
    reference = copy.deepcopy(find_reference(TRAIN))
    return Observed(reference.values, reference.tensors)


def compare_with_reference(observed: Observed) -> Any:
    reference = find_reference(TRAIN)
    return compare(TRAIN, observed, reference)


def test_reference_itself_passes():
    observed = observe_right()
    outcome = compare_with_reference(observed)
    tensors = sum(map(len, observed.tensors.values()))
    assert (outcome.passed, outcome.computed, outcome.error) == (True, True, 0.0)
    assert outcome.tensors == len(observed.values) + tensors


@pytest.mark.parametrize("times", [0.5, 2.0])
def test_tensor_beyond_the_tolerance_is_wrong(times):
    observed = observe_right()
    norm, *rest = observed.tensors["second moment"]["ln_f.bias"]
    observed.tensors["second moment"]["ln_f.bias"] = (norm * (1 + times * TOLERANCE), *rest)
    outcome = compare_with_reference(observed)
    assert outcome.passed == (times < 1)
    assert outcome.worst == "second moment of ln_f.bias"
    assert ("ln_f.bias is off by" in (outcome.reason or "")) == (times > 1)


def test_missing_tensors_and_values_that_are_not_finite_are_wrong():
    observed = observe_right()
    del observed.tensors["gradient"]["ln_f.bias"]
    reason = compare_with_reference(observed).reason
    assert reason == "no gradient of 1 tensors, such as ln_f.bias"
    observed = observe_right()
    observed.values["loss_1"] = float("nan")
    outcome = compare_with_reference(observed)
    assert (outcome.passed, outcome.worst, outcome.error) == (False, "loss_1", None)


def test_tensor_that_rounding_moves_by_its_own_size_is_not_compared():
    """A gradient that is zero but for rounding has no digits, as that of a bias before a norm has
    none.
    """
    reference = find_reference(TRAIN)
    moved = observe_right()
    norm, *rest = moved.tensors["first moment"]["ln_f.bias"]
    moved.tensors["first moment"]["ln_f.bias"] = (2 * norm, *rest)
    tolerances = derive_tolerances(observe_right(), [moved], TOLERANCE)
    outcome = compare(TRAIN, moved, reference, tolerances)
    assert outcome.passed
    assert outcome.tensors == compare_with_reference(observe_right()).tensors - 1


@pytest.mark.parametrize("error", [MemoryError("no room"), OSError(28, "no disk")])
def test_a_full_memory_or_disk_is_not_kept_as_outcome(error, monkeypatch):
    """An outcome is kept in the cache until the code changes."""
    monkeypatch.setattr(mathematics, "load_float64_adapter", Mock(side_effect=error))
    with pytest.raises(type(error)):
        mathematics.check_in_float64(TRAIN)


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ("eval/int8_dynamic/b4/tiny", "int8_dynamic multiplies whole numbers of 8 bits"),
        ("train/fsdp/b4x2/cpu", "the check runs in one process, and this case in several"),
        ("train/amp_bf16/b4/tiny", ""),
    ],
)
def test_case_that_cannot_run_in_float64_says_why(case, why):
    assert explain_uncheckable(parse(f"transformer/torch/{case}")) == why


class PlantedBug(NamedTuple):
    """Code that changes the adapter of a case once it is built, and the verdict that must follow.

    Without code nothing is changed.
    """

    name: str
    case: str
    code: str = ""
    verdict: str = "wrong"


RESNET, UNET = "resnet50/torch/train/fp32/b4/tiny", "unet3d/torch/train/fp32/b4/tiny"
WITHOUT_FLOAT64 = "an operator without float64"
PLANTED_BUGS = [
    PlantedBug("nothing", RESNET, verdict="right"),
    PlantedBug("nothing under autocast", TRAIN.id.replace("fp32", "amp_bf16"), verdict="right"),
    PlantedBug("eps of one batch norm", RESNET, "adapter.model.layer3[0].bn2.eps = 1e-4"),
    PlantedBug(
        "rate of the second step", TRAIN.id, "adapter.optimizer.param_groups[0]['lr'] *= 1 + 1e-5"
    ),
    PlantedBug(
        "one gradient scaled by 1.000001",
        UNET,
        "next(adapter.model.parameters()).register_hook(lambda g: g * (1 + 1e-6))",
    ),
    PlantedBug(
        WITHOUT_FLOAT64,
        TRAIN.id,
        'adapter.recipe.step = lambda: (_ for _ in ()).throw(RuntimeError(\'"kernel" not '
        "implemented for Double'))",
        verdict="not computed",
    ),
]


def check_planted(environment: Environment, bugs: Sequence[PlantedBug]) -> dict[str, Any]:
    """Check cases in float64, each with its bug, and return the outcomes by the bugs' names."""
    orders = [(bug.name, bug.case, bug.code) for bug in bugs]
    outcomes = run_inside(environment, PROGRAM, json.dumps(orders))
    assert len(outcomes) == len(bugs)
    return outcomes


@pytest.mark.slow
def test_small_bugs_that_float32_hides_are_found(environment):
    outcomes = check_planted(environment["torch"], PLANTED_BUGS)
    verdicts = {}
    for name, outcome in outcomes.items():
        verdict = "right" if outcome["passed"] else "wrong"
        verdicts[name] = verdict if outcome["computed"] else "not computed"
    assert verdicts == {bug.name: bug.verdict for bug in PLANTED_BUGS}
    assert outcomes[WITHOUT_FLOAT64]["reason"] == (
        'the step does not run in float64: RuntimeError: "kernel" not implemented for Double'
    )


@pytest.mark.slow
def test_models_of_earlier_cases_are_freed_before_the_next(environment):
    cases = [
        TRAIN.id.replace("fp32", name)
        for name in ("fp32", "checkpoint", "accumulate", "keep_grads")
    ]
    alive = run_inside(environment["torch"], ALIVE, json.dumps(cases))
    assert alive == [1, 1, 1, 1]


@pytest.mark.slow
@pytest.mark.all_cases
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_baselines_of_size_cpu_are_right_too(framework, environment):
    """The smallest size has fewer layers: what is wrong in a deeper one alone is seen here."""
    untouched = []
    for name in list_workloads():
        batch = load_workload(name).preset("cpu").base
        untouched.append(PlantedBug(name, f"{name}/{framework}/train/fp32/b{batch}/cpu"))
    for outcome in check_planted(environment[framework], untouched).values():
        assert outcome["computed"], outcome
        assert outcome["passed"], outcome


def test_the_parent_is_told_that_an_outcome_cannot_be_written(tmp_path, monkeypatch):
    """Here a folder has the name of the file, and the step is not computed."""
    monkeypatch.setattr(mathematics, "check_in_float64", lambda case, baseline: RIGHT)
    orders = {"file": str(tmp_path), "cases": [TRAIN.id]}
    assert mathematics.check_all(orders, ignore) == {"errno": errno.EISDIR}
