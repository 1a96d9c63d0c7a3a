"""The peak of one rank that was not run: what it holds is its share by the framework's own rule,
however many there are.
"""

from __future__ import annotations

import json
from functools import cache
from math import prod
from pathlib import Path

import pytest
from pydantic import ValidationError

from framebench.engine import environments
from framebench.models import spec
from framebench.ranks import predicted
from framebench.ranks.cases import over_ranks
from framebench.ranks.predicted import Unpredicted, predict_rank_peak
from framebench.ranks.prediction import Prediction
from framebench.ranks.sharding import (
    WIDE,
    count_first_chunks,
    count_longest_axis,
    count_whole_tensors,
)
from framebench.suite.case import Case
from tests.processes import framebench, run_inside

pytestmark = pytest.mark.usefixtures("imported_once")

WORKLOAD = spec.load_workload("transformer")
SHAPES = [p.shape for p in WORKLOAD.params(WORKLOAD.config("tiny"))]
WHOLE = WIDE * sum(map(prod, SHAPES))
COUNTS = WIDE * len(SHAPES)  # PyTorch's optimizer counts the steps of each tensor


@cache
def predict_case(framework: str, strategy: str, batch: str, scenario: str = "train") -> Prediction:
    """Predict a case once for all tests of this process."""
    case = over_ranks(f"transformer/{framework}/{scenario}/{strategy}/{batch}/tiny")
    return predict_rank_peak(case, environments.ensure(framework))


def chunk_bytes(ranks: int) -> int:
    """Return the bytes of a rank's weights as FSDP divides them."""
    return WIDE * count_first_chunks(SHAPES, ranks)


def even_bytes(ranks: int) -> int:
    """Return the bytes of a device's weights as JAX divides them."""
    return WIDE * count_longest_axis(SHAPES, ranks)


@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.all_cases), 64])
def test_fsdp_holds_its_chunk_of_everything(ranks: int) -> None:
    prediction = predict_case("torch", "fsdp", f"b64x{ranks}")
    assert prediction.parts["parameters"] == chunk_bytes(ranks)
    assert prediction.parts["optimizer states"] == 2 * chunk_bytes(ranks) + COUNTS
    assert prediction.ranks == ranks
    assert prediction.instrument == "predicted"


@pytest.mark.all_cases
def test_more_ranks_need_less_and_what_is_kept_gathered_needs_more() -> None:
    two = predict_case("torch", "fsdp", "b64x2")
    many = predict_case("torch", "fsdp", "b64x64")
    kept = predict_case("torch", "fsdp_keep", "b64x2")
    assert many.peak_bytes < two.peak_bytes < kept.peak_bytes
    assert kept.parts["gathered parameters"] == WHOLE, "at the peak every block's weights are there"


def test_without_sharding_each_rank_holds_everything_and_the_buckets() -> None:
    prediction = predict_case("torch", "ddp", "b4x2")
    assert (prediction.parts["parameters"], prediction.parts["optimizer states"]) == (
        WHOLE,
        2 * WHOLE + COUNTS,
    )
    assert WHOLE <= prediction.parts["gradient buckets"] <= 1.05 * WHOLE


@pytest.mark.all_cases
def test_zero_redundancy_hands_out_whole_tensors() -> None:
    prediction = predict_case("torch", "zero_optimizer", "b4x4")
    assert prediction.parts["parameters"] == WHOLE
    states = prediction.parts["optimizer states"]
    assert 0 < states - 2 * WIDE * count_whole_tensors(SHAPES, 4) <= COUNTS, (
        "and nobody is fuller than this rank"
    )


@pytest.mark.all_cases
def test_an_evaluation_has_parameters_alone_and_those_of_a_block_at_a_time() -> None:
    divided = predict_case("torch", "fsdp", "b4x2", "eval")
    assert divided.parts["parameters"] == chunk_bytes(2)
    assert 0 < divided.parts["gathered parameters"] < WHOLE
    assert not {"optimizer states", "gradients", "gradient buckets"} & divided.parts.keys()


@pytest.mark.all_cases
@pytest.mark.parametrize(
    ("strategy", "params"), [("replicated", WHOLE), ("fully_sharded", even_bytes(4))]
)
def test_an_evaluation_in_jax(strategy: str, params: int) -> None:
    prediction = predict_case("jax", strategy, "b4x4", "eval")
    assert prediction.parts["parameters"] == params
    assert "optimizer states" not in prediction.parts


@pytest.mark.parametrize(
    ("strategy", "params", "states"),
    [
        pytest.param("replicated", WHOLE, 2 * WHOLE, marks=pytest.mark.all_cases),
        ("sharded_states", WHOLE, 2 * even_bytes(4)),
        pytest.param(
            "fully_sharded", even_bytes(4), 2 * even_bytes(4), marks=pytest.mark.all_cases
        ),
    ],
)
def test_jax_devices_hold_what_the_strategy_says(strategy: str, params: int, states: int) -> None:
    prediction = predict_case("jax", strategy, "b4x4")
    assert prediction.parts["parameters"] == params
    assert prediction.parts["optimizer states"] == states + 4, "the count of steps"


@pytest.mark.all_cases
def test_a_thousand_ranks() -> None:
    """These are more than the tensors have rows.

    PyTorch leaves one row to the first rank, and gathers as many as there are ranks; no axis of
    JAX's divides.
    """
    prediction = predict_case("torch", "fsdp", "b1024x1024")
    assert prediction.parts["parameters"] == chunk_bytes(1024)
    assert prediction.parts["all-gather buffers"] > WHOLE
    jax = predict_case("jax", "fully_sharded", "b1024x1024")
    assert jax.parts["parameters"] == even_bytes(1024) == WHOLE


GONE = Path(__file__).parent / "programs" / "predicted_gone.py"


def test_a_missing_memory_tracker_is_reported() -> None:
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
def test_unpredictable_rank_cases_have_a_reason(case: str, why: str) -> None:
    with pytest.raises(Unpredicted, match=why):
        predict_rank_peak(over_ranks(case), environments.describe("torch"))


def test_parts_that_do_not_add_up_are_refused() -> None:
    fields = {"case": "a", "ranks": 2, "rank": 0, "peak_bytes": 3, "note": "", "versions": {}}
    assert Prediction.model_validate(fields | {"parts": {"a": 1, "b": 2}}).peak_bytes == 3
    with pytest.raises(ValidationError, match="sum to 2 bytes"):
        Prediction.model_validate(fields | {"parts": {"a": 2}})


def test_predict_prints_ranks_as_json_and_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """The prediction is the one from above, which is made once."""

    def predict_again(case: Case, environment: object) -> Prediction:
        return predict_case("torch", "fsdp", f"b{case.batch}x{case.ranks}")

    monkeypatch.setattr(predicted, "predict_rank_peak", predict_again)
    case = "transformer/torch/train/fsdp/b4/tiny"
    printed = json.loads(framebench("predict", case, "--ranks", "64", "--json").stdout)
    assert printed["case"] == "transformer/torch/train/fsdp/b64x64/tiny"
    assert printed["peak_bytes"] == sum(printed["parts"].values()) > 0
    assert "predicted peak" in framebench("predict", case, "--ranks", "64").stdout
    wrong = framebench("predict", "transformer/jittor/train/fsdp/b4", "--ranks", "2")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "Jittor's MPI" in wrong.stderr
