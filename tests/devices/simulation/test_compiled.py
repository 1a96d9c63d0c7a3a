"""What compiled steps need: Inductor's own programs, run without their kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.processes import run_inside

PROGRAM = Path(__file__).parent / "programs" / "compiled_steps.py"
WEIGHT = 4 * 1024 * 1024  # bytes
SUMS = 4096  # more than a reduction keeps of its parts
Steps = dict[str, Any]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def steps(environment) -> Steps:
    return run_inside(environment["torch"], PROGRAM)


def test_fused_operators_save_their_input_alone(steps):
    """The eager step saves what each of four operators needs, the compiled one the weight."""
    assert steps["eager"]["allocated"] >= 5 * WEIGHT
    weight_and_gradient = 2 * WEIGHT
    assert 0 < steps["compiled"]["allocated"] - weight_and_gradient < SUMS


def test_tracing_by_the_compiler_takes_no_memory(steps):
    first, *others = steps["compiled"]["by_step"]
    assert others == [first, first]


def test_eager_operators_between_two_graphs_are_counted(steps):
    """Counted are the tensor that is made there, and what the second graph takes from the first."""
    assert steps["with a break"]["allocated"] >= steps["compiled"]["allocated"] + 2 * WEIGHT


def test_the_graph_is_compiled_for_the_gpu_of_the_simulation(steps):
    assert (steps["compiled"]["cores"], steps["on another GPU"]["cores"]) == (108, 40)


def test_states_that_a_compiled_update_makes_are_counted(steps):
    """They are two moments, and the count of steps, which is rounded up to 512 bytes."""
    update = steps["update"]
    assert 2 * WEIGHT <= update["kinds"]["optimizer states"] <= 2 * WEIGHT + 512
    weight_gradient_and_moments = 4 * WEIGHT
    assert update["between_steps"] >= weight_gradient_and_moments


def test_a_convolutional_network_is_compiled_and_simulated(steps):
    """It has batch norm, dropout and autocast, with which compiling could fail."""
    network = steps["network"]
    assert network["kind"] == "torch, convolutions without workspaces"
    assert network["kinds"]["optimizer states"] > 0


def test_compiled_flex_attention_makes_no_scores(steps):
    """At the peak there are three tensors, each with a gradient from before and another of this
    step; the gradient of the output; a logarithm and a sum for each of 2,048 rows.
    """
    tensor, row_sums = 4 * 2048 * 64, 4 * 2048
    least = 10 * tensor + 2 * row_sums
    assert least <= steps["flex"]["allocated"] <= least + 10 * 512


def test_settings_of_inductor_are_taken(steps):
    weight_and_gradient = 2 * WEIGHT
    assert steps["settings"]["allocated"] >= weight_and_gradient


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("CUDA graphs", "CUDA graphs keep their memory in pools of their own"),
        ("tuned", "is measured on the GPU"),
        ("another backend", "not those of the backend 'aot_eager'"),
        ("ranks", "several GPUs"),
        ("another Inductor", "differs from that of 2.13"),
    ],
)
def test_unsupported_compiled_steps_are_refused(step, why, steps):
    assert why in steps[step]
    assert "Leave torch.compile out" in steps[step]
