"""Small steps on simulated GPUs, compared with what is worked out by hand, and with what a
forgotten choice would give.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.processes import run_inside

Steps = dict[str, Any]  # answers by the name of a step
PROGRAMS = Path(__file__).parent / "programs"
MIB = 2**20
AMPERE = 2 * 4096 * 1024 + 8 * 16 * 1024  # of one handle of cuBLAS
# of `make_mlp`
WEIGHTS = 4 * (1024 * 2048 + 2048 * 512 + 512 * 512)
INPUT = 4 * 8 * 1024
# of `make_attention`
BATCH, HEADS, QUERIES, HEAD_SIZE = 2, 4, 256, 64
ROWS = BATCH * HEADS * QUERIES
TENSOR = ROWS * HEAD_SIZE  # numbers
SEEDS = 2 * 512  # bytes of dropout's seed and offset, a block of the allocator each
FLOAT = 4  # bytes
TILE = 64  # queries, and keys, that a block of threads of the efficient kernel takes
LOCK = 16  # bytes, of a tile
# of `make_layer`
LAYER, HIDDEN = 4 * 512 * 512, 4 * 256 * 512


@pytest.fixture(scope="module")
def steps(environment) -> Steps:
    return run_inside(environment["torch"], PROGRAMS / "small_steps.py")


def test_adam_agrees_with_the_calculation_by_hand(steps):
    """Weights, gradients and two moments stay, and the update makes one more copy: the roots of all
    second moments at once. Forward and backward pass have a handle of cuBLAS each.
    """
    found = steps["adam"]
    assert found["between_steps"] == 4 * WEIGHTS + 2 * AMPERE + INPUT
    assert found["by_step"] == [found["allocated"]] * 3
    assert found["allocated"] == sum(found["kinds"].values())
    assert found["kinds"] == {
        "weights": WEIGHTS,
        "gradients": WEIGHTS,
        "optimizer states": 2 * WEIGHTS,
        "temporaries": WEIGHTS,
        "activations": 0,
        "quantization states": 0,
        "workspaces": 2 * AMPERE,
        "inputs": INPUT,
    }
    assert found["reserved"] % (2 * MIB) == 0
    # CUBLAS_WORKSPACE_CONFIG=:0:0
    without = steps["adam without workspaces"]
    assert without["allocated"] == found["allocated"] - 2 * AMPERE


def test_deep_copies_of_a_model_are_weights_like_any_others(steps):
    assert steps["averaged copy"]["allocated"] == 101 * FLOAT * 512 * 512


def test_the_efficient_kernel_saves_a_logsumexp_per_query(steps):
    """At the peak: queries, keys and values, their gradients, the output and its gradient, a
    logsumexp per query, and dropout's seeds; and of the kernel a sum per query and, for each block
    of 64 queries, a tile of 64 x 64 with its lock.
    """
    found = steps["attention in float32"]
    tensors = 8 * FLOAT * TENSOR
    logsumexp = row_sums = FLOAT * ROWS
    tiles = BATCH * HEADS * (QUERIES // TILE) * (FLOAT * TILE * TILE + LOCK)
    assert found["allocated"] == tensors + logsumexp + SEEDS + row_sums + tiles
    assert set(found["kernels"]) == {"efficient_attention", "efficient_attention_backward"}


def test_flash_attention_sums_in_single_precision(steps):
    """Eight tensors in half precision; outputs and gradients are copied into the kernel's order;
    two numbers per query, and the gradient of the queries once more in float32.
    """
    found = steps["attention in bfloat16"]
    half = 2  # bytes of a number
    tensors_and_copies = (8 + 2) * half * TENSOR
    sums_of_queries = 2 * FLOAT * ROWS
    gradient_of_queries = FLOAT * TENSOR
    expected = tensors_and_copies + sums_of_queries + gradient_of_queries + SEEDS
    assert found["allocated"] == expected
    assert set(found["kernels"]) == {"flash_attention", "flash_attention_backward"}
    assert steps["attention in inference"]["kernels"] == {"flash_attention": 3}


def test_attention_on_hopper_takes_cudnn(steps):
    """In half precision there are eight tensors. In float32 there are a logarithm per query, and a
    workspace with the queries' gradient and a sum per query. Dropout's seeds come on top.
    """
    found = steps["attention on Hopper"]
    assert found["kernels"] == {"cudnn_attention": 3, "cudnn_attention_backward": 3}  # in 3 steps
    half, single = 2, 4  # bytes of a number
    logarithms, workspace = single * ROWS, single * (TENSOR + ROWS)
    assert found["allocated"] == half * 8 * TENSOR + logarithms + workspace + SEEDS


def test_each_call_of_attention_has_its_kernel(steps):
    calls = json.loads((PROGRAMS / "attention_calls.json").read_text())
    chosen = [call | {"kernel": kernel} for call, kernel in zip(calls, steps["choose_kernels"])]
    assert chosen == calls


def test_autocast_casts_a_weight_once(steps):
    """Input, hidden values and the weight in half precision, the weight once though it is used
    twice. Nothing stays.
    """
    found = steps["layer in autocast"]
    assert found["kinds"]["activations"] == HIDDEN // 2 + HIDDEN // 2 + LAYER // 2 + 2 * 512
    assert found["between_steps"] == steps["layer"]["between_steps"]


def test_autocast_caches_converted_weights_but_no_other_values(steps):
    """Until autocast ends, a weight of 512 x 512 has a copy in half precision, unless the program
    turns the cache off.
    """

    def kept_by_cache(product):
        cached, uncached = steps[product], steps[f"{product}, uncached"]
        return int(cached["allocated"] - uncached["allocated"])

    assert kept_by_cache("product of a weight") == 2 * 512 * 512
    assert kept_by_cache("product of values") == 0


def test_dropout_saves_a_byte_per_number(steps):
    """Numbers in float32, what is left of them, and the mask; of a CPU the mask has as many bytes
    as the numbers.
    """
    assert steps["dropout"]["allocated"] == (4 + 4 + 1) * MIB + 2 * 512


def test_a_sum_of_gradients_takes_the_place_of_the_first(steps):
    """Weight, hidden values and two gradients, each of 4 MiB; were the sum made apart it would be a
    fifth. What the program itself adds up is made apart, also where it is recomputed: weight, two
    products and their sum.
    """
    assert steps["sum of gradients"]["allocated"] // MIB == 4 * 4
    assert steps["sum of the program"]["allocated"] // MIB == 4 * 4


def test_operators_with_a_kernel_on_cuda_stay_whole(steps):
    """Weight, what the backward pass gets, and what it makes, each of 4 MiB; the norm also has a
    number for each of 1024 rows, and its backward pass keeps its operator's result. Before 2.9 the
    norm was several operators, whose parts were saved.
    """
    assert steps["mish"]["allocated"] // MIB == 3 * 4
    assert steps["norm"]["allocated"] // MIB == 3 * 4
    assert steps["norm, PyTorch 2.8"]["allocated"] // MIB == 6 * 4


def test_requests_come_in_order(steps):
    """The inner layer's weight and bias, then the outer module's own and its buffer; input, product
    with its workspace, ReLU, mask, result. An optimizer that was made before the move has the
    weights that moved.
    """
    layer, rows = 4 * 64 * 64, 4 * 64 * 64
    moved = [layer, 4 * 64, 400, 300]
    found = steps["request_in_order"]
    assert found["sizes"] == [*moved, rows, rows, AMPERE, rows, rows // 4, rows]
    assert found["followed"] == [True, True]


def test_host_memory_is_not_counted_on_the_device(steps):
    """One weight and its gradient; three saved tensors come back one at a time."""
    tensor = 4 * MIB
    assert steps["saved on the host"]["between_steps"] == 2 * tensor
    assert steps["saved on the host"]["allocated"] == 4 * tensor + 2 * 512


def test_a_simulated_step_reads_made_up_values_and_real_layouts(steps):
    assert steps["read_in_step"] == {
        "number of its own": 5.0,
        # made up
        "sum": 0.0,
        "comparison": True,
        "place of the largest": 1,
        # the output is channels last if one operand is
        "convolution is channels last": False,
        "convolution of channels last is too": True,
        # in CUDA's list of float32, and not in that of CPUs
        "layer norm in autocast": "torch.float32",
    }


def test_pytorchs_viewer_reads_the_snapshot(steps):
    viewed = steps["view_snapshot"]
    assert viewed["total"] == viewed["reserved"]
    assert "alloc" in viewed["text"]
    assert "<" in viewed["page"]


def test_older_releases_take_the_workspace_of_a_bias_anew(steps):
    older, newer = steps["bias, PyTorch 2.6"]["between_steps"], steps["bias"]["between_steps"]
    assert (older, newer - older) == (AMPERE + 2 * 4 * 64 * 64 + 512, MIB)
