"""The peak of one rank that was not run: what it holds is its share by the framework's own rule, however many there are."""

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
from framebench.ranks.predicted import Unpredicted, predict
from framebench.ranks.prediction import Prediction
from framebench.ranks.sharding import WIDE, first_chunks, longest_axis, whole_tensors
from tests.processes import framebench, run_inside

pytestmark = pytest.mark.usefixtures("imported_once")

WORKLOAD = spec.load_workload("transformer")
SHAPES = [p.shape for p in WORKLOAD.params(WORKLOAD.config("tiny"))]
WHOLE = WIDE * sum(map(prod, SHAPES))
COUNTS = WIDE * len(SHAPES)  # PyTorch's optimizer counts the steps of each tensor


@cache
def of(framework: str, strategy: str, batch: str, scenario: str = "train") -> Prediction:
    case = over_ranks(f"transformer/{framework}/{scenario}/{strategy}/{batch}/tiny")
    return predict(case, environments.ensure(framework))


def chunk(ranks: int) -> int:
    return WIDE * first_chunks(SHAPES, ranks)


def even(ranks: int) -> int:
    return WIDE * longest_axis(SHAPES, ranks)


@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.all_cells), 64])
def test_fsdp_holds_its_chunk_of_everything(ranks: int) -> None:
    found = of("torch", "fsdp", f"b{64}x{ranks}")
    assert found.parts["parameters"] == chunk(ranks)
    assert found.parts["optimizer states"] == 2 * chunk(ranks) + COUNTS
    assert found.ranks == ranks
    assert found.instrument == "predicted"


@pytest.mark.all_cells
def test_more_ranks_need_less_and_what_is_kept_gathered_needs_more() -> None:
    two, many, kept = of("torch", "fsdp", "b64x2"), of("torch", "fsdp", "b64x64"), of("torch", "fsdp_keep", "b64x2")
    assert many.peak_bytes < two.peak_bytes < kept.peak_bytes
    assert kept.parts["gathered parameters"] == WHOLE, "at the peak every block's weights are there"


def test_without_sharding_each_rank_holds_everything_and_the_buckets() -> None:
    found = of("torch", "ddp", "b4x2")
    assert (found.parts["parameters"], found.parts["optimizer states"]) == (WHOLE, 2 * WHOLE + COUNTS)
    assert WHOLE <= found.parts["gradient buckets"] <= 1.05 * WHOLE


@pytest.mark.all_cells
def test_zero_redundancy_hands_out_whole_tensors() -> None:
    found = of("torch", "zero_optimizer", "b4x4")
    assert found.parts["parameters"] == WHOLE
    states = found.parts["optimizer states"]
    assert 0 < states - 2 * WIDE * whole_tensors(SHAPES, 4) <= COUNTS, "and nobody is fuller than this rank"


@pytest.mark.all_cells
def test_an_evaluation_has_parameters_alone_and_those_of_a_block_at_a_time() -> None:
    divided = of("torch", "fsdp", "b4x2", "eval")
    assert divided.parts["parameters"] == chunk(2)
    assert 0 < divided.parts["gathered parameters"] < WHOLE
    assert not {"optimizer states", "gradients", "gradient buckets"} & divided.parts.keys()


@pytest.mark.all_cells
@pytest.mark.parametrize(("strategy", "params"), [("replicated", WHOLE), ("fully_sharded", even(4))])
def test_an_evaluation_in_jax(strategy: str, params: int) -> None:
    found = of("jax", strategy, "b4x4", "eval")
    assert found.parts["parameters"] == params
    assert "optimizer states" not in found.parts


@pytest.mark.parametrize(
    ("strategy", "params", "states"),
    [
        pytest.param("replicated", WHOLE, 2 * WHOLE, marks=pytest.mark.all_cells),
        ("sharded_states", WHOLE, 2 * even(4)),
        pytest.param("fully_sharded", even(4), 2 * even(4), marks=pytest.mark.all_cells),
    ],
)
def test_jax_devices_hold_what_the_strategy_says(strategy: str, params: int, states: int) -> None:
    found = of("jax", strategy, "b4x4")
    assert found.parts["parameters"] == params
    assert found.parts["optimizer states"] == states + 4, "the count of steps"


@pytest.mark.all_cells
def test_a_thousand_ranks() -> None:
    """More than these tensors have rows: PyTorch leaves one to the first rank, and gathers as many as there are ranks; no axis
    of JAX's divides."""
    found = of("torch", "fsdp", "b1024x1024")
    assert found.parts["parameters"] == chunk(1024)
    assert found.parts["all-gather buffers"] > WHOLE
    assert of("jax", "fully_sharded", "b1024x1024").parts["parameters"] == even(1024) == WHOLE


PROGRAMS = Path(__file__).parent / "programs"
GONE = PROGRAMS / "predicted_gone.py"


def test_a_missing_memory_tracker_is_reported() -> None:
    message = run_inside(environments.ensure("torch"), GONE, "transformer/torch/train/fsdp/b4x2/tiny")
    assert "has no torch.distributed._tools.fsdp2_mem_tracker.FSDPMemTracker as framebench knows it" in str(message)


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
        predict(over_ranks(case), environments.describe("torch"))


def test_parts_that_do_not_add_up_are_refused() -> None:
    fields = {"case": "a", "ranks": 2, "rank": 0, "peak_bytes": 3, "note": "", "versions": {}}
    assert Prediction.model_validate(fields | {"parts": {"a": 1, "b": 2}}).peak_bytes == 3
    with pytest.raises(ValidationError, match="sum to 2 bytes"):
        Prediction.model_validate(fields | {"parts": {"a": 2}})


def test_predict_prints_ranks_as_json_and_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the prediction from above, which is made once."""
    monkeypatch.setattr(predicted, "predict", lambda case, _: of("torch", "fsdp", f"b{case.batch}x{case.ranks}"))
    case = "transformer/torch/train/fsdp/b4/tiny"
    found = json.loads(framebench("predict", case, "--ranks", "64", "--json").stdout)
    assert found["case"] == "transformer/torch/train/fsdp/b64x64/tiny"
    assert found["peak_bytes"] == sum(found["parts"].values()) > 0
    assert "predicted peak" in framebench("predict", case, "--ranks", "64").stdout
    wrong = framebench("predict", "transformer/jittor/train/fsdp/b4", "--ranks", "2")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "Jittor's MPI" in wrong.stderr
