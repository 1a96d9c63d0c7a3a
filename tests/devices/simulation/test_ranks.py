"""One rank of several GPUs: what it holds, against arithmetic on the shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from framebench.devices import simulate
from framebench.engine.environments import Environment
from tests.processes import run_inside

PROGRAM = Path(__file__).parent / "programs" / "ranks.py"
RANKS = 8
LAYERS = 4
LAYER = 4 * 2048 * 2048  # bytes of a layer's weights in float32
WEIGHTS = LAYERS * LAYER
SMALL = 2**20  # of the batch, and of what else is not counted here


@pytest.fixture(scope="module")
def simulated(environment: dict[str, Environment]) -> dict[str, Any]:
    """What the library says of the steps of `ranks.py`, by their name."""
    found = run_inside(environment["torch"], PROGRAM)
    assert isinstance(found, dict)
    return found


@pytest.mark.slow
def test_fsdp_divides_weights_and_states_by_the_ranks(simulated: dict[str, Any]) -> None:
    kinds = simulated["sharded"]["kinds"]
    assert kinds["weights"] == WEIGHTS // RANKS
    assert kinds["optimizer states"] == pytest.approx(2 * WEIGHTS // RANKS, abs=SMALL)
    assert simulated["plain"]["kinds"]["weights"] == WEIGHTS


@pytest.mark.slow
def test_a_rank_holds_its_share_between_steps(simulated: dict[str, Any]) -> None:
    """Weights, their gradients and two moments; and cuBLAS's workspaces."""
    workspaces = simulated["sharded"]["kinds"]["workspaces"]
    share = 4 * WEIGHTS // RANKS + workspaces
    assert simulated["sharded"]["between_steps"] == pytest.approx(share, abs=SMALL)


@pytest.mark.slow
def test_gathered_layers_are_at_the_peak(simulated: dict[str, Any]) -> None:
    """At least one layer whole, with its whole gradient; at most all of them."""
    sharded = simulated["sharded"]
    gathered = sharded["allocated"] - sharded["between_steps"]
    assert 2 * LAYER - SMALL < gathered < 2 * WEIGHTS


@pytest.mark.slow
def test_layers_that_stay_gathered_take_more(simulated: dict[str, Any]) -> None:
    more = simulated["kept"]["allocated"] - simulated["sharded"]["allocated"]
    assert LAYER < more < WEIGHTS


@pytest.mark.slow
def test_layers_gathered_in_bfloat16_take_half(simulated: dict[str, Any]) -> None:
    """Shares and states stay in float32."""
    narrow, sharded = simulated["narrow"], simulated["sharded"]
    for kind in ("weights", "optimizer states"):
        assert narrow["kinds"][kind] == sharded["kinds"][kind]
    # at least one layer is gathered, and half of its bytes in float32 are saved
    assert narrow["allocated"] < sharded["allocated"] - LAYER // 2


@pytest.mark.slow
def test_a_replica_has_buckets_next_to_whole_weights(simulated: dict[str, Any]) -> None:
    replicated, plain = simulated["replicated"], simulated["plain"]
    assert replicated["kinds"]["weights"] == WEIGHTS
    more = replicated["between_steps"] - plain["between_steps"]
    assert more == pytest.approx(WEIGHTS, rel=0.05)


def test_no_rank_cannot_be_simulated() -> None:
    with pytest.raises(ValueError, match="ranks is 0"):
        simulate(lambda device: lambda: None, "a100-40gb", ranks=0)
