"""The peak of one rank that was not run: what it holds is its share by the framework's own rule,
however many there are.
"""

from __future__ import annotations

from functools import cache
from math import prod
from pathlib import Path

import pytest
from pydantic import ValidationError

from framebench.engine import environments
from framebench.models import spec
from framebench.ranks import predicted
from framebench.ranks.cases import parse_rank_case
from framebench.ranks.predicted import Prediction, Unpredicted, predict_rank_peak
from framebench.ranks.sharding import (
    FLOAT32_BYTES,
    count_first_chunks,
    count_longest_axis,
    count_whole_tensors,
)
from tests.marks import rarely
from tests.processes import framebench, read_json, run_inside

pytestmark = pytest.mark.usefixtures("imported_once")

WORKLOAD = spec.load_workload("transformer")
SHAPES = [p.shape for p in WORKLOAD.params(WORKLOAD.config("tiny"))]
WHOLE = FLOAT32_BYTES * sum(map(prod, SHAPES))
COUNTS = FLOAT32_BYTES * len(SHAPES)  # PyTorch's optimizer counts the steps of each tensor


@cache
def predict_case(framework: str, strategy: str, batch: str, scenario: str = "train") -> Prediction:
    """Predict a case once for all tests of this process."""
    case = parse_rank_case(f"transformer/{framework}/{scenario}/{strategy}/{batch}/tiny")
    return predict_rank_peak(case, environments.ensure(framework))


def count_chunk_bytes(ranks: int) -> int:
    """Return the bytes of a rank's weights as FSDP divides them."""
    return FLOAT32_BYTES * count_first_chunks(SHAPES, ranks)


def count_even_bytes(ranks: int) -> int:
    """Return the bytes of a device's weights as JAX divides them."""
    return FLOAT32_BYTES * count_longest_axis(SHAPES, ranks)


COUNT = 4  # JAX's optimizer counts the steps once


@pytest.mark.parametrize(
    ("framework", "strategy", "batch", "weights", "states"),
    [
        ("torch", "fsdp", "b64x64", count_chunk_bytes(64), 2 * count_chunk_bytes(64) + COUNTS),
        ("torch", "ddp", "b4x2", WHOLE, 2 * WHOLE + COUNTS),
        ("jax", "sharded_states", "b4x4", WHOLE, 2 * count_even_bytes(4) + COUNT),
        rarely("jax", "replicated", "b4x4", WHOLE, 2 * WHOLE + COUNT),
        rarely(
            "jax", "fully_sharded", "b4x4", count_even_bytes(4), 2 * count_even_bytes(4) + COUNT
        ),
        # more ranks than the tensors have rows: no axis of JAX's divides
        rarely("jax", "fully_sharded", "b1024x1024", WHOLE, 2 * WHOLE + COUNT),
    ],
)
def test_a_rank_holds_its_share_of_weights_and_states(framework, strategy, batch, weights, states):
    parts = predict_case(framework, strategy, batch).parts
    assert (parts["parameters"], parts["optimizer states"]) == (weights, states)


def test_without_sharding_each_rank_holds_the_buckets():
    buckets = predict_case("torch", "ddp", "b4x2").parts["gradient buckets"]
    assert WHOLE <= buckets <= 1.05 * WHOLE


@pytest.mark.all_cases
def test_the_peak_falls_with_more_ranks_and_rises_if_gathered_weights_are_kept():
    two_ranks = predict_case("torch", "fsdp", "b64x2")
    many_ranks = predict_case("torch", "fsdp", "b64x64")
    weights_kept = predict_case("torch", "fsdp_keep", "b64x2")
    assert many_ranks.peak_bytes < two_ranks.peak_bytes < weights_kept.peak_bytes
    assert weights_kept.parts["gathered parameters"] == WHOLE, "all blocks' weights at the peak"


@pytest.mark.all_cases
def test_gathering_takes_more_than_the_weights_with_more_ranks_than_rows():
    """PyTorch gathers a row from each rank, also from one that has none of a tensor's rows."""
    parts = predict_case("torch", "fsdp", "b1024x1024").parts
    assert parts["parameters"] == count_chunk_bytes(1024)
    assert parts["all-gather buffers"] > WHOLE


@pytest.mark.all_cases
def test_zero_redundancy_hands_out_whole_tensors():
    parts = predict_case("torch", "zero_optimizer", "b4x4").parts
    assert parts["parameters"] == WHOLE
    # nobody is fuller than this rank
    states = 2 * FLOAT32_BYTES * count_whole_tensors(SHAPES, 4)
    assert states < parts["optimizer states"] <= states + COUNTS


@pytest.mark.all_cases
@pytest.mark.parametrize(
    ("framework", "strategy", "batch", "weights"),
    [
        ("torch", "fsdp", "b4x2", count_chunk_bytes(2)),
        ("jax", "replicated", "b4x4", WHOLE),
        ("jax", "fully_sharded", "b4x4", count_even_bytes(4)),
    ],
)
def test_an_evaluation_has_parameters_alone(framework, strategy, batch, weights):
    parts = predict_case(framework, strategy, batch, "eval").parts
    assert parts["parameters"] == weights
    assert not {"optimizer states", "gradients", "gradient buckets"} & parts.keys()


GONE = Path(__file__).parent / "programs" / "predicted_gone.py"


def test_a_missing_memory_tracker_is_reported():
    message = run_inside(
        environments.ensure("torch"), GONE, "transformer/torch/train/fsdp/b4x2/tiny"
    )
    assert (
        "has no torch.distributed._tools.fsdp2_mem_tracker.FSDPMemTracker as framebench knows it"
    ) in str(message)


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ("transformer/jittor/train/fsdp/b4x2", "every process keeps all states"),
        ("transformer/jax/train/fsdp/b4x2", "JAX's are replicated"),
        ("transformer/torch/train/compile+fsdp/b4x2", "only eager execution"),
        ("transformer/torch/train/accumulate+fsdp/b8x2", "not those of micro-batches"),
        ("transformer/torch/train/deepspeed_zero3/b4x2", "not followed on fake tensors"),
        ("transformer/torch/train/tf32+fsdp/b4x2", "allow_tf32"),
    ],
)
def test_unpredictable_rank_cases_have_a_reason(case, why):
    with pytest.raises(Unpredicted, match=why):
        predict_rank_peak(parse_rank_case(case), environments.describe("torch"))


def test_parts_that_do_not_add_up_are_refused():
    fields = {
        "case": "transformer/torch/train/fsdp/b4x2/tiny",
        "ranks": 2,
        "rank": 0,
        "peak_bytes": 3,
        "note": "",
        "versions": {},
    }
    assert Prediction.model_validate(fields | {"parts": {"a": 1, "b": 2}}).peak_bytes == 3
    with pytest.raises(ValidationError, match="sum to 2 bytes"):
        Prediction.model_validate(fields | {"parts": {"a": 2}})


def test_predict_prints_ranks_as_json_and_text(monkeypatch):
    """The prediction is the one from above, which is made once."""

    def predict_again(case, environment):
        return predict_case("torch", "fsdp", f"b{case.batch}x{case.ranks}")

    monkeypatch.setattr(predicted, "predict_rank_peak", predict_again)
    case = "transformer/torch/train/fsdp/b4/tiny"
    printed = read_json("predict", case, "--ranks", 64)
    assert printed["case"] == "transformer/torch/train/fsdp/b64x64/tiny"
    assert printed["peak_bytes"] == sum(printed["parts"].values())
    assert sum(printed["parts"].values()) > 0
    assert "predicted peak" in framebench("predict", case, "--ranks", "64").stdout
    wrong = framebench("predict", "transformer/jittor/train/fsdp/b4", "--ranks", "2")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "Jittor's MPI" in wrong.stderr
