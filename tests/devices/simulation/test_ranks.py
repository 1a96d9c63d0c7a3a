"""One rank of several GPUs: what it holds, against arithmetic on the shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.processes import run_inside

Steps = dict[str, Any]  # answers by the name of a step
PROGRAM = Path(__file__).parent / "programs" / "ranks.py"
RANKS = 8
LAYER = 4 * 2048 * 2048  # bytes of a layer's weights in float32
WEIGHTS = 4 * LAYER
SMALL = 2**20  # of the batch, and of what else is not counted here
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def simulated(environment) -> Steps:
    """Return what the library says of the steps of `ranks.py`, by their name."""
    return run_inside(environment["torch"], PROGRAM)


def test_fsdp_divides_weights_gradients_and_states_by_the_ranks(simulated):
    sharded = simulated["sharded"]
    assert simulated["plain"]["kinds"]["weights"] == WEIGHTS
    assert sharded["kinds"]["weights"] == WEIGHTS // RANKS
    assert sharded["kinds"]["optimizer states"] == pytest.approx(2 * WEIGHTS // RANKS, abs=SMALL)
    share = 4 * WEIGHTS // RANKS + sharded["kinds"]["workspaces"]
    assert sharded["between_steps"] == pytest.approx(share, abs=SMALL)


def test_gathered_layers_are_at_the_peak(simulated):
    """FSDP gathers the weights of one layer at a time, and makes their whole gradient.

    With `reshard_after_forward=False` all layers stay gathered until the backward pass.
    """
    sharded, stay_gathered = simulated["sharded"], simulated["stay gathered"]
    gathered = sharded["allocated"] - sharded["between_steps"]
    assert 2 * LAYER - SMALL < gathered < 2 * WEIGHTS
    assert LAYER < stay_gathered["allocated"] - sharded["allocated"] < WEIGHTS


def test_layers_gathered_in_bfloat16_take_half(simulated):
    """Shares and states stay in float32."""
    narrow, sharded = simulated["narrow"], simulated["sharded"]
    for kind in ("weights", "optimizer states"):
        assert narrow["kinds"][kind] == sharded["kinds"][kind]
    # at least one layer is gathered, and half of its bytes in float32 are saved
    assert narrow["allocated"] < sharded["allocated"] - LAYER // 2


def test_a_replica_has_buckets_next_to_whole_weights(simulated):
    replicated, plain = simulated["replicated"], simulated["plain"]
    assert replicated["kinds"]["weights"] == WEIGHTS
    more = replicated["between_steps"] - plain["between_steps"]
    assert more == pytest.approx(WEIGHTS, rel=0.05)
    assert replicated["kinds"]["gradients"] == plain["kinds"]["gradients"] + WEIGHTS
    assert replicated["kinds"]["inputs"] == plain["kinds"]["inputs"]


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        ("plain", "torch"),
        ("sharded", "torch, ranks"),
        ("replicated", "torch, ranks"),
        ("divided", "torch, tensor parallel"),
    ],
)
def test_a_rank_states_the_error_of_its_kind_of_parallelism(simulated, step, kind):
    assert simulated[step]["kind"] == kind


def test_tensor_parallelism_divides_weights_gradients_and_states(simulated):
    divided = simulated["divided"]
    assert divided["kinds"]["weights"] == WEIGHTS // RANKS
    share = 4 * WEIGHTS // RANKS + divided["kinds"]["workspaces"]
    assert divided["between_steps"] == pytest.approx(share, abs=SMALL)
