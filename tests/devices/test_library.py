"""`framebench.devices` as a library: what a step needs on a GPU, asked from other projects."""

from __future__ import annotations

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from framebench.devices import (
    Device,
    GiB,
    UnknownDevice,
    devices,
    find_device,
    plan,
    simulate,
)
from framebench.devices.needs import INTERVALS, estimate_needs
from framebench.engine import environments
from framebench.engine.environments import Environment, SetupError
from tests.processes import run_inside

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[2]
WEIGHT = 4 * 1024 * 1024  # bytes of a matrix of 1024 x 1024 in float32
BATCH = 4 * 64 * 1024  # bytes of 64 rows of it


@pytest.fixture(scope="module")
def simulated(environment: dict[str, Environment]) -> dict[str, Any]:
    """What the library says of the steps of `library_steps.py`, by their name."""
    found = run_inside(environment["torch"], PROGRAMS / "library_steps.py")
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def planned() -> dict[str, Any]:
    """What the library says of the function of `library_plan.py`."""
    try:
        compiler = environments.ensure("jax", package="jax-cuda")
    except SetupError as error:
        pytest.skip(f"XLA's compiler for GPUs cannot be installed: {str(error).splitlines()[-1]}")
    found = run_inside(compiler, PROGRAMS / "library_plan.py", variables={"JAX_PLATFORMS": "cpu"})
    assert isinstance(found, dict)
    return found


def test_every_device_is_found_by_its_name() -> None:
    assert {find_device(device.name) for device in devices()} == set(devices())
    assert all(isinstance(device, Device) for device in devices())


def test_an_unknown_device_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownDevice, match="the nearest is a100-40gb"):
        simulate(lambda device: lambda: None, "a100-40g")


def test_pytorchs_allocator_is_not_simulated_for_a_tpu() -> None:
    tpu = next(device for device in devices() if device.kind == "tpu")
    with pytest.raises(ValueError, match="is a TPU"):
        simulate(lambda device: lambda: None, tpu)


def test_a_step_has_to_run() -> None:
    with pytest.raises(ValueError, match="at least one step"):
        simulate(lambda device: lambda: None, "a100-40gb", steps=0)


def test_without_the_framework_the_command_that_installs_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("framebench.devices.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install torch"):
        simulate(lambda device: lambda: None, "a100-40gb")
    with pytest.raises(ImportError, match=r"pip install .jax"):
        plan(lambda: None, [], "a100-40gb")


@pytest.mark.slow
def test_weights_gradients_and_states_have_their_bytes(simulated: dict[str, Any]) -> None:
    kinds = simulated["linear"]["kinds"]
    assert kinds["weights"] == WEIGHT
    assert kinds["gradients"] == WEIGHT
    # two moments, and the count of steps, which the allocator rounds up to 512 bytes
    assert 2 * WEIGHT <= kinds["optimizer states"] <= 2 * WEIGHT + 512
    assert kinds["inputs"] == BATCH


@pytest.mark.slow
def test_what_is_in_use_is_reserved_and_a_context_and_the_error_are_needed_beside_it(
    simulated: dict[str, Any],
) -> None:
    linear = simulated["linear"]
    assert linear["allocated"] <= linear["reserved"]
    needs = estimate_needs(linear["reserved"], INTERVALS["torch"].high, find_device("a100-40gb"))
    assert linear["needs"] == needs < 24 * GiB
    tensors = sum(holder["tensors"] for holder in linear["holders"])
    assert 0 <= linear["allocated"] - max(linear["timeline"]) < 512 * tensors
    assert sum(holder["bytes"] for holder in linear["holders"]) == linear["allocated"]


@pytest.mark.slow
def test_holders_name_the_lines_of_the_users_program(simulated: dict[str, Any]) -> None:
    lines = " ".join(holder["line"] for holder in simulated["linear"]["holders"])
    assert "library_steps.py:" in lines
    assert "fake_modules.py" not in lines, "the simulation's own lines ask for nothing"


@pytest.mark.slow
def test_expandable_segments_reserve_no_more(simulated: dict[str, Any]) -> None:
    expandable, usual = simulated["expandable"], simulated["linear"]
    assert expandable["allocated"] == usual["allocated"]
    assert expandable["reserved"] <= usual["reserved"]


@pytest.mark.slow
def test_a_model_may_be_converted_after_it_was_made(simulated: dict[str, Any]) -> None:
    numbers = 64 * 3 * 9 + 64 + 64 * 64 * 9
    rounded = 2 * numbers + 3 * 512  # each of the three tensors is rounded up to 512 bytes
    assert 2 * numbers <= simulated["converted"]["kinds"]["weights"] <= rounded


@pytest.mark.slow
def test_a_scaler_finds_no_gradient_infinite(simulated: dict[str, Any]) -> None:
    """Else its optimizer would never step, and have no momentum."""
    assert simulated["scaled"]["kinds"]["optimizer states"] >= WEIGHT


@pytest.mark.slow
def test_a_loop_that_draws_until_all_is_within_bounds_ends(simulated: dict[str, Any]) -> None:
    assert simulated["resampled"]["allocated"] >= 2 * 4 * 1024, "weights and their gradient"


@pytest.mark.slow
def test_checks_of_numbers_pass(simulated: dict[str, Any]) -> None:
    """Of the form `if ...: raise`, with `not`, and `assert`."""
    assert simulated["checked"]["allocated"] > 0


@pytest.mark.slow
def test_a_condition_that_is_read_now_and_then_is_true(simulated: dict[str, Any]) -> None:
    assert simulated["deciding"]["allocated"] >= WEIGHT


@pytest.mark.slow
def test_a_snapshot_is_one_for_pytorchs_memory_viewer(simulated: dict[str, Any]) -> None:
    assert {"segments", "device_traces"} <= set(simulated["snapshot"])


@pytest.mark.slow
def test_what_does_not_fit_is_said_with_its_bytes(simulated: dict[str, Any]) -> None:
    assert "bytes do not fit beside" in simulated["refusal"]


@pytest.mark.slow
def test_a_compiled_step_is_refused_and_not_answered_as_eager(simulated: dict[str, Any]) -> None:
    assert simulated["compiled"].startswith("Linear is compiled, and only eager steps")
    assert simulated["decorated"]["allocated"] > 0, "a function that is never called is none"


@pytest.mark.slow
def test_states_of_8_bits_take_a_quarter(simulated: dict[str, Any]) -> None:
    """And the compiled update takes nothing, where a list of Adam's temporaries would."""
    quantized, linear = simulated["quantized"], simulated["linear"]
    assert linear["kinds"]["optimizer states"] >= 2 * WEIGHT
    assert quantized["kinds"]["optimizer states"] == pytest.approx(WEIGHT / 2, rel=0.1)
    assert quantized["allocated"] < linear["allocated"]


@pytest.mark.slow
def test_what_is_not_known_of_convolutions_is_in_the_stated_error(
    simulated: dict[str, Any],
) -> None:
    assert simulated["linear"]["kind"] == "torch"
    assert simulated["converted"]["kind"] == "torch, convolutions without workspaces"
    kinds = INTERVALS["torch"], INTERVALS["torch, convolutions without workspaces"]
    assert kinds[0].high < kinds[1].high


OUTSIDE = """
import torch
from framebench.devices import GiB

def make_step(device):
    model = torch.nn.Linear(1024, 1024).to(device)
    batch = torch.randn(8, 1024, device=device)
    return lambda: model(batch).sum().backward()

def test_it_fits(gpu_memory):
    assert gpu_memory("l4-24gb", make_step).needs < 22 * GiB

def test_it_does_not_fit_a_gigabyte(gpu_memory):
    assert gpu_memory("l4-24gb", make_step).needs < 1 * GiB
"""
PYTEST = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments")


@pytest.mark.slow
def test_the_fixture_decides_in_a_repository_outside(
    environment: dict[str, Environment], tmp_path: Path
) -> None:
    """pytest itself is lent to PyTorch's environment, which has none."""
    lent = tmp_path / "lent"
    lent.mkdir()
    for name in PYTEST:
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        file = Path(spec.origin)
        source = file.parent if file.name == "__init__.py" else file
        (lent / source.name).symlink_to(source)
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "test_memory.py").write_text(OUTSIDE)
    command = [environment["torch"].python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-p", "framebench.devices.pytest_plugin", "test_memory.py"],
        cwd=repository,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(lent)]),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "test_it_does_not_fit_a_gigabyte" in done.stdout


@pytest.mark.slow
def test_a_plan_is_made_of_its_parts_and_donated_memory_is_saved(
    planned: dict[str, Any],
) -> None:
    for one in (planned["kept"], planned["donated"]):
        parts = one["parts"]
        assert one["peak"] == (
            parts["arguments"] + parts["outputs"] + parts["temporaries"] - parts["aliased"]
        )
        h100 = find_device("h100-80gb")
        assert one["needs"] == estimate_needs(one["peak"], INTERVALS["jax"].high, h100)
    assert planned["kept"]["parts"]["arguments"] == 2 * WEIGHT
    assert planned["donated"]["peak"] <= planned["kept"]["peak"] - WEIGHT


@pytest.mark.slow
def test_a_function_that_xla_cannot_fit_is_refused(planned: dict[str, Any]) -> None:
    assert planned["refusal"].startswith("DoesNotFit: needs 6,144.0 GiB")


@pytest.mark.slow
def test_without_a_compiler_for_the_device_the_plug_in_is_named(
    environment: dict[str, Environment],
) -> None:
    done = subprocess.run(
        [
            environment["jax"].python,
            "-c",
            "from framebench.devices import plan\nplan(abs, [1.0], 'h100-80gb')",
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )
    assert "ImportError: JAX has no compiler for NVIDIA H100" in done.stderr
