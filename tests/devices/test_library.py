"""`framebench.devices` as a library: what a step needs on a GPU, asked from other projects."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from framebench.devices import GiB, find_device
from framebench.devices.needs import INTERVALS, estimate_needs
from framebench.engine import environments
from framebench.engine.environments import SetupError
from tests.processes import ROOT, run_inside, run_process

Steps = dict[str, Any]  # answers by the name of a step
PROGRAMS = Path(__file__).parent / "programs"
WEIGHT = 4 * 1024 * 1024  # bytes of a matrix of 1024 x 1024 in float32
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def simulated(environment) -> Steps:
    """Return simulations by the function of `library_steps.py` that makes the step.

    A step that is not simulated has the error's message instead.
    """
    return run_inside(environment["torch"], PROGRAMS / "library_steps.py")


@pytest.fixture(scope="module")
def planned() -> Steps:
    """Return the plans of `library_plan.py` by what was asked."""
    try:
        compiler = environments.ensure("jax", package="jax-cuda")
    except SetupError as error:
        pytest.skip(f"XLA's compiler for GPUs cannot be installed: {str(error).splitlines()[-1]}")
    return run_inside(compiler, PROGRAMS / "library_plan.py", variables={"JAX_PLATFORMS": "cpu"})


def test_holders_sum_to_the_allocated_bytes_and_name_lines(simulated):
    linear = simulated["make_linear_step"]
    holders = linear["holders"]
    assert sum(holder["bytes"] for holder in holders) == linear["allocated"]
    states = [holder for holder in holders if holder["kind"] == "optimizer states"]
    assert (states[0]["shape"], states[0]["tensors"]) == ("float32[1024, 1024]", 2), "two moments"
    lines = " ".join(holder["line"] for holder in holders)
    assert "library_steps.py:" in lines
    assert "fake_modules.py" not in lines, "the simulation's own lines ask for nothing"


def test_the_timeline_ends_at_the_allocated_bytes(simulated):
    """The allocator rounds each tensor up to 512 bytes."""
    linear = simulated["make_linear_step"]
    tensors = sum(holder["tensors"] for holder in linear["holders"])
    assert 0 <= linear["allocated"] - max(linear["timeline"]) < 512 * tensors


def test_needs_are_reserved_memory_with_context_and_error(simulated):
    linear = simulated["make_linear_step"]
    needs = estimate_needs(linear["reserved"], INTERVALS["torch"].high, find_device("a100-40gb"))
    assert linear["allocated"] <= linear["reserved"] < linear["needs"]
    assert linear["needs"] == needs < 24 * GiB


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        ("make_linear_step", "torch"),
        ("make_frozen_step", "torch, frozen weights"),
        ("make_converted_step", "torch, convolutions without workspaces"),
        ("make_recurrent_step", "torch, recurrent layers"),
        ("make_cell_step", "torch"),
    ],
)
def test_a_step_states_the_error_of_its_kind(simulated, step, kind):
    assert simulated[step]["kind"] == kind


def test_a_model_may_be_converted_after_it_was_made(simulated):
    numbers = 64 * 3 * 9 + 64 + 64 * 64 * 9  # two convolutions, the first with a bias
    size = 2 * numbers  # bytes in bfloat16
    rounding = 3 * 512  # the allocator rounds each of the three tensors up to 512 bytes
    assert size <= simulated["make_converted_step"]["kinds"]["weights"] <= size + rounding


@pytest.mark.parametrize(
    ("step", "shape"),
    [
        ("make_logging_step", "float32[64, 1024]"),
        ("make_packed_step", "float32[29, 1024]"),  # 16 + 9 + 4 rows
        ("make_packed_step", "float32[16, 3, 1024]"),
        ("make_packed_step", "float32[3, 5120]"),  # what a GRU's kernel keeps of three rows
        # forward variables of 8 texts at 50 moments: 10 labels and the 11 blanks around them
        ("make_ctc_step", "float32[8, 50, 21]"),
    ],
)
def test_what_scripts_do_with_numbers_and_lengths_is_simulated(simulated, step, shape):
    assert not isinstance(simulated[step], str), simulated[step]
    assert shape in {holder["shape"] for holder in simulated[step]["holders"]}


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("make_lbfgs_step", "L-BFGS keeps is decided by their values"),
        ("make_sparse_step", "sparse tensors are not simulated"),
        ("make_sparse_embedding_step", "sparse tensors are not simulated"),
        ("make_flex_step", "torch.compile(flex_attention) is"),
    ],
)
def test_what_cannot_be_simulated_is_refused_with_the_reason(simulated, step, why):
    assert why in simulated[step]


def test_a_sparse_buffer_is_moved_with_its_model(simulated):
    assert simulated["make_sparse_buffer_step"]["kinds"]["weights"] >= WEIGHT


def test_the_zero_tangent_of_a_weight_takes_no_memory(simulated):
    step = simulated["make_forward_mode_step"]
    assert not [holder for holder in step["holders"] if "zerotensor" in holder["line"]]
    assert WEIGHT <= step["kinds"]["gradients"] < 2 * WEIGHT


def test_attention_within_nested_texts_takes_the_flash_kernel(simulated):
    """The three texts have 96 words, with 4 heads of 64 numbers in bfloat16."""
    rows, texts = 96 * 4, 3
    tensor = 2 * rows * 64  # bytes
    tensors = 1 + 1 + 3 + 1  # texts, output, gradients of query, key and value, one more copy
    logarithms = 4 * rows
    sums = 4 * (rows + 128 * 4 * texts) * (64 + 1)  # in float32, with 128 more rows a text and head
    size = tensors * tensor + logarithms + sums
    rounding = 10 * 512
    assert size <= simulated["make_nested_step"]["allocated"] <= size + rounding


def test_a_gradient_scaler_lets_its_optimizer_step(simulated):
    """It finds no gradient infinite: the optimizer has its momentum."""
    assert simulated["make_scaled_step"]["kinds"]["optimizer states"] >= WEIGHT


def test_checks_of_a_batch_pass_and_other_conditions_are_true(simulated):
    """The step makes its matrix, where the batch has a positive number."""
    assert simulated["make_deciding_step"]["allocated"] >= WEIGHT


def test_nn_init_draws_once_and_a_loop_of_the_program_many_times(simulated):
    """Each draw makes a tensor."""
    assert len(simulated["make_truncated_step"]["timeline"]) < 100
    assert len(simulated["make_resampled_step"]["timeline"]) > 1000


def test_a_model_has_the_widths_that_its_program_computes_by_tensors(simulated):
    weights = 4 * (256 * 512 + 512 * 768 + 768 * 1024)
    assert simulated["make_computed_step"]["kinds"]["weights"] == weights


def test_a_counter_on_the_device_counts(simulated):
    """Three steps are simulated, and the third one makes a matrix."""
    assert simulated["make_counting_step"]["allocated"] == WEIGHT + 512


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
    assert simulated["numbers read"][place] == numbers


def test_a_compiled_function_that_is_never_called_is_no_obstacle(simulated):
    assert simulated["make_decorated_step"]["allocated"] > 0


def test_a_program_that_halves_its_batch_until_it_fits_gets_errors_to_catch(simulated):
    """Each of three steps tries 8192 rows, 2560 and 1024, and names the pass that was too large."""
    tried = simulated["batches tried"]
    assert tried["attempts"] == 3 * [[8192, "forward"], [2560, "backward"], [1024, "none"]]
    assert tried["reserved"] <= 64 << 20
    assert sum(tried["kinds"].values()) == tried["allocated"] <= tried["reserved"]


def test_an_error_in_a_backward_pass_is_raised_with_the_line_that_failed(simulated):
    failures = simulated["errors of backward passes"]
    assert failures["derivative"] == ["no derivative", 'raise ValueError("no derivative")']
    message, line = failures["hook"]
    assert "7" in message
    assert line == "return gradient.reshape(7)"


def test_expandable_segments_reserve_no_more(simulated):
    fixed, expandable = simulated["make_linear_step"], simulated["expandable segments"]
    assert expandable["allocated"] == fixed["allocated"]
    assert expandable["reserved"] <= fixed["reserved"]


@pytest.mark.parametrize(
    ("step", "option"),
    [
        ("make_streamed_step", 'other_streams="done"'),
        ("make_choosing_step", 'chosen="none"'),
        ("make_unsized_step", 'chosen="none"'),
    ],
)
def test_a_step_without_one_answer_is_refused_with_its_line_and_an_option(simulated, step, option):
    assert "library_steps.py" in simulated[step]
    assert option in simulated[step]


def test_the_stream_of_the_allocation_may_be_recorded(simulated):
    batch = 4 * 64 * 1024  # bytes; doubled, it is made a second time
    assert simulated["make_recorded_step"]["allocated"] == 2 * batch


def test_copies_on_another_stream_are_bounded_from_both_sides(simulated):
    """The step copies eight matrices. If a copy is done at once, two matrices live at a time."""
    done, waiting = simulated["other streams done"], simulated["other streams waiting"]
    assert done["allocated"] == 2 * WEIGHT
    assert waiting["allocated"] == 8 * WEIGHT
    assert done["reserved"] < waiting["reserved"]


def test_a_choice_of_elements_is_bounded_from_both_sides(simulated):
    """Weight, gradient, batch, and what is chosen by the mask and by its indices have one size."""
    none, every = simulated["no element chosen"], simulated["all elements chosen"]
    assert none["allocated"] >= 3 * WEIGHT
    assert every["allocated"] - none["allocated"] >= 2 * WEIGHT


def test_texts_of_unknown_lengths_are_bounded_from_both_sides(simulated):
    """Of four texts one has sixteen steps of 8 numbers, and each other has one to sixteen."""
    shortest, longest = simulated["shortest texts"], simulated["longest texts"]
    rows = 3 * 15 * 8 * 4  # bytes of the others' steps after the first one
    assert longest["allocated"] - shortest["allocated"] >= 2 * rows


def test_results_that_have_no_bound_are_refused_with_their_line(simulated):
    refusal = simulated["results without a bound"]
    assert "no bound of them is known" in refusal
    assert "library_steps.py" in refusal


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
    """Return bytes in use of the steps of `counted_steps.py`: simulated, and bounds by hand."""
    return run_inside(environment["torch"], PROGRAMS / "counted_steps.py")


@pytest.mark.parametrize("program", ["padded texts", "detector"])
def test_a_step_takes_what_autograd_saves_and_no_more_than_it_makes(counted, program):
    """A detector is simulated twice, as if it chose no place, and all of them."""
    step = counted[program]
    assert step["lower_bound"] <= max(step["simulated"])
    assert min(step["simulated"]) <= step["upper_bound"]


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


def test_a_plan_is_the_sum_of_its_parts_less_donated_memory(planned):
    kept, donated = planned["kept"], planned["donated"]
    parts = kept["parts"]
    assert kept["peak"] == parts["arguments"] + parts["outputs"] + parts["temporaries"]
    assert parts["arguments"] == 2 * WEIGHT
    assert donated["peak"] <= kept["peak"] - WEIGHT
    needs = estimate_needs(kept["peak"], INTERVALS["jax"].high, find_device("h100-80gb"))
    assert kept["needs"] == needs
    assert planned["too large"].startswith("DoesNotFit: ")


def test_without_a_compiler_for_the_device_the_plug_in_is_named(environment):
    program = "from framebench.devices import plan\nplan(abs, [1.0], 'h100-80gb')"
    command = [environment["jax"].python, "-c", program]
    done = run_process(command, code=1, PYTHONPATH=str(ROOT), JAX_PLATFORMS="cpu")
    assert "ImportError: JAX has no compiler for NVIDIA H100" in done.stderr
