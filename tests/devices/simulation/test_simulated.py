"""Small steps on simulated cards, held against what is worked out by hand, and against what a
forgotten choice would give.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from framebench.engine.environments import Environment
from tests.processes import run_inside

PROGRAMS = Path(__file__).parent / "programs"
MIB = 2**20
AMPERE, HOPPER = 2 * 4096 * 1024 + 8 * 16 * 1024, 32 * MIB  # of one handle of cuBLAS
WEIGHTS = 4 * (1024 * 2048 + 2048 * 512 + 512 * 512)
INPUT = 4 * 8 * 1024


@pytest.fixture(scope="module")
def steps(environment: dict[str, Environment]) -> dict[str, Any]:
    found = run_inside(environment["torch"], PROGRAMS / "small_steps.py")
    assert isinstance(found, dict)
    return found


def test_adam_agrees_with_the_calculation_by_hand(steps: dict[str, Any]) -> None:
    """Weights, gradients and two moments stay, and the update makes one more copy: the roots of all
    second moments at once. Forward and backward pass have a handle of cuBLAS each.
    """
    found = steps["adam"]
    assert found["between_steps"] == 4 * WEIGHTS + 2 * AMPERE + INPUT
    assert found["allocated"] == 5 * WEIGHTS + 2 * AMPERE + INPUT
    assert found["by_step"] == [found["allocated"]] * 3
    assert found["peak_phase"] == "optimizer"
    assert found["kinds"] == {
        "weights": WEIGHTS,
        "gradients": WEIGHTS,
        "optimizer states": 2 * WEIGHTS,
        "temporaries": WEIGHTS,
        "activations": 0,
        "workspaces": 2 * AMPERE,
        "inputs": INPUT,
    }
    assert found["reserved"] % (2 * MIB) == 0


def test_cublas_can_be_left_without_a_workspace(steps: dict[str, Any]) -> None:
    """CUBLAS_WORKSPACE_CONFIG=:0:0."""
    found = steps["adam_without_workspaces"]
    assert found["allocated"] == steps["adam"]["allocated"] - 2 * AMPERE
    assert found["kinds"]["workspaces"] == 0


def test_an_update_without_foreach_has_another_peak(steps: dict[str, Any]) -> None:
    """One weight after the other: the root and its quotient, of the largest weight alone."""
    largest = 4 * 1024 * 2048
    assert (
        steps["adam_without_lists"]["allocated"] == 4 * WEIGHTS + 2 * largest + 2 * AMPERE + INPUT
    )
    assert steps["adam_without_lists"]["allocated"] != steps["adam"]["allocated"]


def test_a_fused_update_makes_nothing_and_counts_on_the_device(steps: dict[str, Any]) -> None:
    """Three counters of a block each; of an update over lists they are on the host."""
    assert steps["adam_fused"]["between_steps"] == steps["adam"]["between_steps"] + 3 * 512
    assert steps["adam_fused"]["peak_phase"] == "backward"


def test_momentum_is_one_state_and_no_temporary(steps: dict[str, Any]) -> None:
    assert steps["momentum"]["between_steps"] == 3 * WEIGHTS + 2 * AMPERE + INPUT
    assert steps["momentum"]["peak_phase"] == "backward"


def test_hopper_has_larger_workspaces(steps: dict[str, Any]) -> None:
    assert steps["adam_on_hopper"]["allocated"] - steps["adam"]["allocated"] == 2 * (
        HOPPER - AMPERE
    )


def test_growing_segments_are_pages(steps: dict[str, Any]) -> None:
    assert steps["grown"]["allocated"] == steps["adam"]["allocated"]
    assert steps["grown"]["reserved"] % (2 * MIB) == 0


BATCH, HEADS, LENGTH, WIDTH = 2, 4, 256, 64
TENSOR = BATCH * HEADS * LENGTH * WIDTH  # numbers
ROWS = BATCH * HEADS * LENGTH
SEEDS = 2 * 512


def test_the_efficient_kernel_saves_a_logarithm_per_query(steps: dict[str, Any]) -> None:
    """At the peak: queries, keys and values, their gradients, the output and its gradient, a
    logarithm per query; and of the kernel a sum per query and a tile of 64 x 64 with its lock for
    each block of 64 queries.
    """
    found = steps["attention_single"]
    tiles = BATCH * HEADS * (LENGTH // 64) * (64 * 64 * 4 + 16)
    assert found["allocated"] == 8 * 4 * TENSOR + 4 * ROWS + SEEDS + 4 * ROWS + tiles
    assert set(found["kernels"]) == {"efficient_attention", "efficient_attention_backward"}


def test_flash_attention_sums_in_single_precision(steps: dict[str, Any]) -> None:
    """Eight tensors in half precision; outputs and gradients are copied into the kernel's order;
    two numbers per query, and the gradient of the queries once more in float32.
    """
    found = steps["attention_half"]
    assert found["allocated"] == (8 + 2) * 2 * TENSOR + 2 * 4 * ROWS + SEEDS + 4 * TENSOR
    assert set(found["kernels"]) == {"flash_attention", "flash_attention_backward"}


def test_hopper_takes_cudnn(steps: dict[str, Any]) -> None:
    """Eight tensors in half precision, a logarithm per query; and a workspace with the queries'
    gradient in float32 and a sum per query.
    """
    found = steps["attention_hopper"]
    assert found["kernels"] == {"cudnn_attention": 3, "cudnn_attention_backward": 3}
    assert found["allocated"] == 8 * 2 * TENSOR + 4 * ROWS + SEEDS + 4 * TENSOR + 4 * ROWS


def test_the_wrong_attention_kernel_has_another_peak(steps: dict[str, Any]) -> None:
    """The probabilities of every pair are saved, and matrix products take workspaces."""
    pairs = 4 * BATCH * HEADS * LENGTH * LENGTH
    wrong, right = steps["attention_wrong"], steps["attention_single"]
    assert wrong["between_steps"] - right["between_steps"] == 2 * AMPERE
    assert wrong["allocated"] - 2 * AMPERE > right["allocated"] + pairs


def test_inference_mode_chooses_too(steps: dict[str, Any]) -> None:
    assert steps["attention_in_inference"]["kernels"] == {"flash_attention": 3}


@pytest.mark.parametrize(
    ("call", "kernel"),
    [
        ("single on an A100", "efficient"),
        ("half on an A100", "flash"),
        ("half with a mask", "efficient"),
        ("half on an H100", "cudnn"),
        ("half on an H100, 2.6", "flash"),
        ("half on an H100, 2.9", "cudnn"),
        ("half on an H100, 2.10", "flash"),
        ("half on an H100, dropout 0.1", "flash"),
        ("half on an H100, dropout 1/8", "cudnn"),
        ("half on a V100", "efficient"),
        ("bfloat on a V100", "math"),
        ("double", "math"),
        ("single, width 66", "math"),
        ("half, width 66", "flash"),
        ("half, width 208 on an RTX 4090", "efficient"),
        ("half, width 208 without gradients", "flash"),
        ("half, width 264", "efficient"),
        ("single, grouped, 2.13", "efficient"),
        ("single, grouped, 2.6", "math"),
    ],
)
def test_which_kernel_attends(steps: dict[str, Any], call: str, kernel: str) -> None:
    assert steps["kernels"][call] == kernel


LAYER, HIDDEN = 4 * 512 * 512, 4 * 256 * 512


def test_autocast_casts_a_weight_once(steps: dict[str, Any]) -> None:
    """Input, hidden values and the weight in half precision, the weight once though it is used
    twice. Nothing stays.
    """
    found = steps["twice_in_autocast"]
    assert found["kinds"]["activations"] == HIDDEN // 2 + HIDDEN // 2 + LAYER // 2 + 2 * 512
    assert found["between_steps"] == steps["twice"]["between_steps"]


def test_autocast_has_the_lists_of_cuda(steps: dict[str, Any]) -> None:
    assert steps["normed_in_autocast"] == ["torch.float32"]


def test_dropout_saves_a_byte_per_number(steps: dict[str, Any]) -> None:
    """Numbers in float32, what is left of them, and the mask; of a CPU the mask has as many bytes
    as the numbers.
    """
    assert steps["dropped"]["allocated"] == (4 + 4 + 1) * MIB + 2 * 512


def test_a_sum_of_gradients_takes_the_place_of_the_first(steps: dict[str, Any]) -> None:
    """Weight, hidden values and two gradients, each of 4 MiB; were the sum made apart it would be a
    fifth.
    """
    assert steps["summed"]["allocated"] // MIB == 4 * 4
    assert steps["summed_apart"]["allocated"] // MIB == 5 * 4


def test_a_sum_of_the_program_is_made_apart(steps: dict[str, Any]) -> None:
    """What is recomputed runs in the backward pass, but the program asks for it: weight, two
    products and their sum.
    """
    assert steps["summed_again"]["allocated"] // MIB == 4 * 4


def test_what_is_asked_for_comes_in_order(steps: dict[str, Any]) -> None:
    """The inner layer's weight and bias, then the outer module's own and its buffer; input, product
    with its workspace, ReLU, mask, result. An optimizer that was made before the move has the
    weights that moved.
    """
    layer, rows = 4 * 64 * 64, 4 * 64 * 64
    moved = [layer, 4 * 64, 400, 300]
    assert steps["in_order"]["asked"] == [*moved, rows, rows, AMPERE, rows, rows // 4, rows]
    assert steps["in_order"]["followed"] == [True]


def test_what_is_recomputed_is_made_in_the_backward_pass(steps: dict[str, Any]) -> None:
    assert steps["recomputed"]["kinds"]["activations"] == HIDDEN + 2 * 512
    assert steps["recomputed"]["peak_phase"] == "backward"


def test_a_scaler_finds_no_infinite_gradient(steps: dict[str, Any]) -> None:
    assert steps["scaled"]["kinds"]["optimizer states"] == 2 * LAYER


def test_host_memory_is_not_counted_on_the_device(steps: dict[str, Any]) -> None:
    """One weight and its gradient; three saved tensors come back one at a time."""
    tensor = 4 * MIB
    assert steps["on_the_host"]["between_steps"] == 2 * tensor
    assert steps["on_the_host"]["allocated"] == 4 * tensor + 2 * 512


def test_channels_last_spreads(steps: dict[str, Any]) -> None:
    assert steps["layouts"] == [False, True]


def test_numbers_that_a_program_reads(steps: dict[str, Any]) -> None:
    assert steps["numbers"] == [5.0, 0.0, True, 1]


def test_a_step_that_does_not_fit_is_out_of_memory(steps: dict[str, Any]) -> None:
    assert steps["too_large"] == f"{13 << 30:,} bytes do not fit beside 0 in use, 0 reserved"


def test_holders_at_the_peak_are_named_by_line(steps: dict[str, Any]) -> None:
    """Two moments of the largest weight come first; then each weight, its gradient and the roots of
    its moments.
    """
    first, *others = steps["held"]
    assert first == ["small_steps.py", "zeros_like", "float32[2048, 1024]", "optimizer states", 2]
    assert ["small_steps.py", "_to_copy", "float32[2048, 1024]", "weights", 1] in others
    assert ["mm", "mm", "float32[2048, 1024]", "gradients", 1] in others


def test_pytorchs_viewer_reads_the_snapshot(steps: dict[str, Any]) -> None:
    assert steps["viewed"]["total"] == steps["viewed"]["reserved"]
    assert steps["viewed"]["is_page"]
    assert "alloc" in steps["viewed"]["text"]


def test_older_releases_take_the_workspace_of_a_bias_anew(steps: dict[str, Any]) -> None:
    older, newer = steps["releases"]["(2, 6)"], steps["releases"]["(2, 13)"]
    assert (older, newer - older) == (AMPERE + 2 * 4 * 64 * 64 + 512, MIB)
