"""`framebench.devices` as a library: what a step needs on a GPU, asked from other projects."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from framebench.devices import GiB, UnknownDevice, devices, find_device, plan, simulate
from framebench.devices.needs import INTERVALS, estimate_needs
from framebench.engine import environments
from framebench.engine.environments import SetupError
from tests.callbacks import ignore
from tests.processes import ROOT, run_inside, run_process

Steps = dict[str, Any]  # answers by the name of a step
PROGRAMS = Path(__file__).parent / "programs"
WEIGHT = 4 * 1024 * 1024  # bytes of a matrix of 1024 x 1024 in float32


@pytest.fixture(scope="module")
def simulated(environment) -> Steps:
    """Return what the library says of the steps of `library_steps.py`, by their name."""
    return run_inside(environment["torch"], PROGRAMS / "library_steps.py")


@pytest.fixture(scope="module")
def planned() -> Steps:
    """Return what the library says of the function of `library_plan.py`."""
    try:
        compiler = environments.ensure("jax", package="jax-cuda")
    except SetupError as error:
        pytest.skip(f"XLA's compiler for GPUs cannot be installed: {str(error).splitlines()[-1]}")
    return run_inside(compiler, PROGRAMS / "library_plan.py", variables={"JAX_PLATFORMS": "cpu"})


@pytest.mark.parametrize(
    ("device", "options", "error", "message"),
    [
        ("a100-40g", {}, UnknownDevice, "the nearest is a100-40gb"),
        ("tpu-v5e", {}, ValueError, "is a TPU"),
        ("a100-40gb", {"steps": 0}, ValueError, "at least one step"),
    ],
)
def test_invalid_questions_are_refused(device, options, error, message):
    with pytest.raises(error, match=message):
        simulate(lambda device: lambda: None, device, **options)


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", "asks the driver for each tensor"),
        ("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync", "the driver's own pool"),
    ],
)
def test_another_allocator_than_the_simulated_one_is_refused(monkeypatch, variable, value, message):
    monkeypatch.setenv(variable, value)
    with pytest.raises(NotImplementedError, match=message):
        simulate(lambda device: lambda: None, "a100-40gb")


def test_without_the_framework_the_command_that_installs_it_is_named(monkeypatch):
    monkeypatch.setattr("framebench.devices.find_spec", ignore)
    with pytest.raises(ImportError, match="pip install torch"):
        simulate(lambda device: lambda: None, devices()[0])
    with pytest.raises(ImportError, match=r"pip install .jax"):
        plan(ignore, [], "a100-40gb")


@pytest.mark.slow
def test_holders_sum_to_the_allocated_bytes_and_name_lines(simulated):
    linear = simulated["linear"]
    holders = linear["holders"]
    assert sum(holder["bytes"] for holder in holders) == linear["allocated"]
    states = [holder for holder in holders if holder["kind"] == "optimizer states"]
    assert (states[0]["shape"], states[0]["tensors"]) == ("float32[1024, 1024]", 2), "two moments"
    lines = " ".join(holder["line"] for holder in holders)
    assert "library_steps.py:" in lines
    assert "fake_modules.py" not in lines, "the simulation's own lines ask for nothing"


@pytest.mark.slow
def test_the_timeline_ends_at_the_allocated_bytes(simulated):
    """The allocator rounds each tensor up to 512 bytes."""
    linear = simulated["linear"]
    tensors = sum(holder["tensors"] for holder in linear["holders"])
    assert 0 <= linear["allocated"] - max(linear["timeline"]) < 512 * tensors


@pytest.mark.slow
def test_needs_are_reserved_memory_with_context_and_error(simulated):
    linear, expandable = simulated["linear"], simulated["expandable"]
    needs = estimate_needs(linear["reserved"], INTERVALS["torch"].high, find_device("a100-40gb"))
    assert linear["allocated"] <= linear["reserved"]
    assert linear["reserved"] < linear["needs"]
    assert linear["needs"] == needs
    assert needs < 24 * GiB
    assert expandable["allocated"] == linear["allocated"]
    assert expandable["reserved"] <= linear["reserved"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "kind"),
    [
        ("linear", "torch"),
        ("frozen", "torch, frozen weights"),
        ("converted", "torch, convolutions without workspaces"),
        ("recurrent", "torch, recurrent layers"),
        ("cell", "torch"),
    ],
)
def test_a_step_states_the_error_of_its_kind(simulated, step, kind):
    assert simulated[step]["kind"] == kind


@pytest.mark.slow
def test_a_program_that_names_cuda_runs_on_the_simulated_gpu(simulated):
    named, passed = simulated["named cuda"]["kinds"], simulated["linear"]["kinds"]
    for kind in ("weights", "gradients", "optimizer states", "inputs"):
        assert named[kind] == passed[kind] > 0


@pytest.mark.slow
def test_a_model_may_be_converted_after_it_was_made(simulated):
    numbers = 64 * 3 * 9 + 64 + 64 * 64 * 9
    rounded = 2 * numbers + 3 * 512  # each of the three tensors is rounded up to 512 bytes
    assert 2 * numbers <= simulated["converted"]["kinds"]["weights"] <= rounded


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "shape"),
    [
        ("logging", "float32[64, 1024]"),
        ("packed", "float32[29, 1024]"),  # 16 + 9 + 4 rows
        ("packed", "float32[16, 3, 1024]"),
        ("packed", "float32[3, 5120]"),  # what a GRU's kernel keeps of three rows
        ("ctc", "float32[8, 50, 21]"),  # forward variables of ten labels and the gaps around them
    ],
)
def test_what_scripts_do_with_numbers_and_lengths_is_simulated(simulated, step, shape):
    assert not isinstance(simulated[step], str), simulated[step]
    assert shape in {holder["shape"] for holder in simulated[step]["holders"]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("lbfgs", "L-BFGS keeps is decided by their values"),
        ("sparse", "sparse tensors are not simulated"),
        ("sparse embedding", "sparse tensors are not simulated"),
        ("flex", "torch.compile(flex_attention) is"),
    ],
)
def test_what_cannot_be_simulated_is_refused_with_the_reason(simulated, step, why):
    assert why in simulated[step]


@pytest.mark.slow
def test_a_sparse_buffer_is_moved_with_its_model(simulated):
    assert simulated["sparse buffer"]["kinds"]["weights"] >= WEIGHT


@pytest.mark.slow
def test_tangents_that_are_zero_take_no_memory(simulated):
    """Of a layer's weight, which has none in forward mode."""
    step = simulated["forward mode"]
    assert not [holder for holder in step["holders"] if "zerotensor" in holder["line"]]
    assert WEIGHT <= step["kinds"]["gradients"] < 2 * WEIGHT


@pytest.mark.slow
def test_attention_within_nested_texts_takes_the_flash_kernel(simulated):
    """It has the texts, the output and three gradients, a logarithm for each row and head, and sums
    in float32 of 128 more rows for each text.
    """
    numbers, rows, texts = 96 * 4 * 64, 96 * 4, 3
    sums = 4 * (rows + 128 * 4 * texts) * (64 + 1)
    copies_of_gradient = 2 * numbers
    least = (1 + 1 + 3) * 2 * numbers + 4 * rows + sums + copies_of_gradient
    assert least <= simulated["nested"]["allocated"] <= least + 10 * 512


@pytest.mark.slow
def test_a_scaler_finds_no_gradient_infinite(simulated):
    """Otherwise its optimizer would never step, and have no momentum."""
    assert simulated["scaled"]["kinds"]["optimizer states"] >= WEIGHT


@pytest.mark.slow
def test_made_up_numbers_let_loops_end_and_checks_pass(simulated):
    """A condition outside loops and checks is read as True."""
    assert simulated["resampled"]["allocated"] >= 2 * 4 * 1024, "weights and their gradient"
    assert simulated["deciding"]["allocated"] >= WEIGHT


@pytest.mark.slow
def test_nn_init_draws_once_where_a_program_of_its_own_draws_on(simulated):
    """Each draw makes a tensor, and the made-up numbers of a program are out of bounds for long."""
    assert len(simulated["truncated"]["timeline"]) < 100
    assert len(simulated["resampled"]["timeline"]) > 1000


@pytest.mark.slow
def test_a_model_has_the_widths_that_its_program_computes_by_tensors(simulated):
    weights = 4 * (256 * 512 + 512 * 768 + 768 * 1024)
    assert simulated["computed"]["kinds"]["weights"] == weights


@pytest.mark.slow
def test_a_counter_on_the_device_counts(simulated):
    """Three steps are simulated, and the third one makes a matrix."""
    assert simulated["counting"]["allocated"] == WEIGHT + 512


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "numbers"),
    [
        ("written through a view", [0.0, 6.0, 1.0]),
        ("from NumPy", [0, 2, 4]),
        ("of a detached parameter", [1.0, 1.0]),
        ("uninitialized", [0.0, 0.0]),
        ("drawn on the host", [[1.0, 1.0, 1.0]] * 2),  # the smallest that can be drawn is 3
        ("drawn by uniform_", [0.0]),
        ("of a permutation", [0, 1, 2]),
        ("drawn and moved to the GPU", [1, 1]),  # made up
        ("resized", [1.0, 1.0]),  # made up
        ("overwritten at random", [1.0, 1.0, 1.0]),  # made up
        ("of a batch", 0.0),  # made up
    ],
)
def test_numbers_that_depend_on_no_weight_and_no_chance_are_computed(simulated, place, numbers):
    assert simulated["numbers"][place] == numbers


@pytest.mark.slow
def test_steps_that_cannot_be_followed_are_refused(simulated):
    assert "bytes do not fit beside" in simulated["too large"]
    assert simulated["decorated"]["allocated"] > 0, "a function that is never called is none"


@pytest.mark.slow
def test_a_program_that_halves_its_batch_until_it_fits_gets_errors_to_catch(simulated):
    halved = simulated["halved"]
    once = [[8192, "forward"], [2560, "backward"], [1024, "none"]]
    assert halved["attempts"] == 3 * once, "in three steps"
    assert halved["reserved"] <= 64 << 20
    assert sum(halved["kinds"].values()) == halved["allocated"] <= halved["reserved"]


@pytest.mark.slow
def test_a_step_that_uses_other_streams_is_bounded_from_both_sides(simulated):
    """Of eight matrices two are in use at a time, and all of them wait if their copies are slow."""
    message = simulated["streamed"]
    assert "library_steps.py" in message
    assert 'other_streams="done"' in message
    assert simulated["recorded"]["allocated"] == 2 * 4 * 64 * 1024
    done, waiting = simulated["streams done"], simulated["streams waiting"]
    assert done["allocated"] == 2 * WEIGHT, "a matrix is dropped once the next is made"
    assert waiting["allocated"] == 8 * WEIGHT
    assert done["reserved"] < waiting["reserved"]


@pytest.mark.slow
def test_a_step_that_chooses_elements_is_bounded_from_both_sides(simulated):
    """Weights, gradient and batch have the same size; so has what is chosen and saved, twice."""
    message = simulated["choosing"]
    assert "library_steps.py" in message
    assert 'chosen="none"' in message
    none, every = simulated["choosing none"], simulated["choosing all"]
    assert none["allocated"] >= 3 * WEIGHT
    assert every["allocated"] - none["allocated"] >= 2 * WEIGHT


OUTSIDE = """
import torch
from framebench.devices import GiB

def make_step(device):
    model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(50))).to(device)
    batch = torch.randn(8, 1024, device=device)
    return lambda: model(batch).sum().backward()

def test_it_fits(gpu_memory):
    assert gpu_memory("l4-24gb", make_step).needs < 22 * GiB

def test_it_does_not_fit_a_gigabyte(gpu_memory):
    step = gpu_memory("l4-24gb", make_step)
    assert step.needs < 1 * GiB
"""
PYTEST = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments")


@pytest.fixture(scope="module")
def counted(environment) -> Steps:
    return run_inside(environment["torch"], PROGRAMS / "counted_steps.py")


@pytest.mark.slow
@pytest.mark.parametrize("program", ["padded texts", "speech", "denoiser", "detector"])
def test_a_step_takes_what_autograd_saves_and_no_more_than_it_makes(counted, program):
    """A detector's least and most are those of a step that chooses no places, and all of them."""
    answer = counted[program]
    assert answer["least"] <= answer["simulated"][-1]
    assert answer["simulated"][0] <= answer["most"]


@pytest.mark.slow
def test_the_fixture_decides_in_a_repository_outside(environment, tmp_path):
    """pytest itself is lent to PyTorch's environment, which has none."""
    for name in PYTEST:
        spec = find_spec(name)
        file = Path(spec.origin)
        source = file.parent if file.name == "__init__.py" else file
        (tmp_path / source.name).symlink_to(source)
    (tmp_path / "test_memory.py").write_text(OUTSIDE)
    command = [environment["torch"].python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = run_process(
        [*command, "-p", "framebench.devices.pytest_plugin", "test_memory.py"],
        tmp_path,
        code=1,
        PYTHONPATH=os.pathsep.join([str(ROOT), str(tmp_path)]),
        PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
    )
    assert "1 failed, 1 passed" in done.stdout
    assert "step on NVIDIA L4 24 GB: allocated" in done.stdout


@pytest.mark.slow
def test_a_plan_is_the_sum_of_its_parts_less_donated_memory(planned):
    kept, donated = planned["kept"], planned["donated"]
    parts = kept["parts"]
    assert kept["peak"] == parts["arguments"] + parts["outputs"] + parts["temporaries"]
    assert parts["arguments"] == 2 * WEIGHT
    assert donated["peak"] <= kept["peak"] - WEIGHT
    needs = estimate_needs(kept["peak"], INTERVALS["jax"].high, find_device("h100-80gb"))
    assert kept["needs"] == needs
    assert planned["too large"].startswith("DoesNotFit: ")


@pytest.mark.slow
def test_without_a_compiler_for_the_device_the_plug_in_is_named(environment):
    program = "from framebench.devices import plan\nplan(abs, [1.0], 'h100-80gb')"
    command = [environment["jax"].python, "-c", program]
    done = run_process(command, code=1, PYTHONPATH=str(ROOT), JAX_PLATFORMS="cpu")
    assert "ImportError: JAX has no compiler for NVIDIA H100" in done.stderr
