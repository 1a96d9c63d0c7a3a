"""Checkpointing in Jittor, which is ours, against the same block without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.engine.environments import Environment
from tests.processes import run_inside

COMPARE = Path(__file__).parent / "programs/jittor_checkpoint_compare.py"


@pytest.mark.slow
@pytest.mark.all_cases
def test_checkpointed_block_runs_twice_and_computes_the_same(
    environment: dict[str, Environment],
) -> None:
    compared = run_inside(environment["jittor"], COMPARE)
    plain, checkpointed = compared["plain"], compared["checkpointed"]

    assert (plain["runs"], checkpointed["runs"]) == (1, 2)
    assert checkpointed["loss"] == pytest.approx(plain["loss"], rel=1e-5)
    for plain_grad, grad in zip(plain["grads"], checkpointed["grads"], strict=True):
        largest = max(map(abs, plain_grad))
        assert grad == pytest.approx(plain_grad, rel=1e-5, abs=1e-5 * largest)
    assert max(map(abs, plain["statistics"])) > 0.001, "running statistics must have moved"
    assert checkpointed["statistics"] == pytest.approx(plain["statistics"], rel=1e-5)
    assert compared["same mask"], "the backward pass has the dropout mask of the forward pass"
