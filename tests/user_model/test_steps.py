"""Steps as people have them: several inputs, keywords, sparse and complex weights, closures,
schedules, dropout left on; in Flax Linen, too. Each kind of file is surveyed and verified under
strategies, and a fault that is planted in it is still found.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from framebench.engine.environments import Environment
from framebench.suite.case import WITHOUT_RANDOM
from tests.conftest import list_requested
from tests.processes import run_inside
from tests.user_model.user_files import BASELINES, TriedFile, read_files

PROGRAM = Path(__file__).parent / "programs" / "try_files.py"
TORCH = read_files("steps.toml")
FLAX = read_files("flax_steps.toml")
JITTOR = read_files("jittor_steps.toml")
PLANTED = read_files("steps.toml", "planted")
GRADIENTS = {  # files with weights that are easily left out, and how many gradients they have
    "a weight that is one number": 2 * 4 + 2 + 1,
    "one number in Linen, and two optimizers": 2 + 1,
    "plain functions that keep arrays in a closure, and labels in the form of their weights": 3,
    "a tree of arrays that can be called, as a module of Equinox": 4,
}


def list_cases(files: dict[str, TriedFile]) -> list[Any]:
    """Return the names as cases of tests; those not often asked for are in `make test-all`."""
    cases = []
    for name, file in files.items():
        cases.append(pytest.param(name, marks=() if file.often else pytest.mark.all_cases))
    return cases


def try_files(
    files: dict[str, TriedFile], framework: str, environment: Environment, folder: Path
) -> dict[str, Any]:
    """Return what the program tells of these files, by name."""
    orders = []
    for number, file in enumerate(files.values()):
        path = folder / str(number) / "mine.py"
        path.parent.mkdir()
        path.write_text(file.code)
        strategies = [BASELINES[file.scenario], *file.strategies]
        orders.append([str(path), framework, file.scenario, strategies])
    if not orders:
        return {}
    result = run_inside(environment, PROGRAM, json.dumps(orders))
    return dict(zip(files, result.values(), strict=True))


@pytest.fixture(scope="module")
def tried_files(
    request,
    tmp_path_factory,
    environment,
) -> dict[str, dict[str, Any]]:
    """Return by framework what came of each file that is asked for."""
    names = list_requested(request)
    results = {"torch": {}, "jax": {}, "jittor": {}}
    for framework, files in (("torch", TORCH | PLANTED), ("jax", FLAX), ("jittor", JITTOR)):
        for compiles in (False, True):  # after a compiler others do not run in the same process
            chosen = {}
            for name, file in files.items():
                if name in names and any("compile" in part for part in file.strategies) == compiles:
                    chosen[name] = file
            folder = tmp_path_factory.mktemp(framework)
            results[framework] |= try_files(chosen, framework, environment[framework], folder)
    return results


def check_rows(file: TriedFile, found: dict[str, Any]) -> None:
    """Fail unless each strategy came out as the table says."""
    assert "fault" not in found, found["fault"]
    if file.period is not None:
        assert found["facts"]["update_period"] == file.period
    if file.block is not None:
        assert found["facts"]["block"] == file.block
    for strategy in (BASELINES[file.scenario], *file.strategies):
        row = found[strategy]
        if strategy in file.left_out:
            assert "left_out" in row, (strategy, row)
            assert file.why in row["left_out"]
        else:
            check_row(file, strategy, row)


def check_row(file: TriedFile, strategy: str, row: dict[str, Any]) -> None:
    """Fail unless a strategy that was not left out came out as the table says."""
    assert "left_out" not in row, (strategy, row)
    assert row["passed"], (strategy, row["reason"])
    if file.in_float64:
        assert row["in_float64"], row["reason"]
    assert row["proven"] == (strategy not in file.unproven), strategy
    is_deterministic = row["key"].endswith(WITHOUT_RANDOM)
    assert is_deterministic == (strategy in file.deterministic), strategy
    if file.scenario != "eval":
        have_weights_moved = len(set(row["losses"])) == len(row["losses"])
        assert have_weights_moved == file.moves, strategy
    if file.name in GRADIENTS:
        assert row["gradients"] == GRADIENTS[file.name]


@pytest.mark.parametrize("name", list_cases(TORCH))
def test_common_training_steps_are_verified(name, tried_files):
    check_rows(TORCH[name], tried_files["torch"][name])


@pytest.mark.slow
@pytest.mark.parametrize("name", list_cases(FLAX))
def test_common_flax_steps_are_verified(name, tried_files):
    check_rows(FLAX[name], tried_files["jax"][name])


@pytest.mark.slow
@pytest.mark.parametrize("name", list_cases(JITTOR))
def test_common_jittor_steps_are_verified(name, tried_files):
    check_rows(JITTOR[name], tried_files["jittor"][name])


@pytest.mark.parametrize("name", PLANTED)
def test_planted_errors_are_found_with_dropout_on(name, tried_files):
    found = tried_files["torch"][name]
    assert "fault" not in found, found["fault"]
    baseline = found[BASELINES[PLANTED[name].scenario]]
    assert baseline["passed"], baseline["reason"]
    row = found[PLANTED[name].strategies[0]]
    if "left_out" in row:
        assert "do not add up" in row["left_out"]
        return
    assert not row["passed"]
    # a fault of PyTorch's is named where it explains the error, and only there
    is_known = name == "layer norms that PyTorch adds up in bfloat16"
    assert ("adds up the gradients of a layer norm's weights" in row["reason"]) == is_known
    # so is a choice that rounding changes
    is_choice = name.startswith("samples that rounding gives to another expert")
    assert ("chooses other entries in bfloat16" in row["reason"]) == is_choice
