"""Checkpointing in Jittor, which is ours, against the same block without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from framebench.engine.environments import Environment
from tests.processes import run_inside

PROGRAMS = Path(__file__).parent / "programs"
COMPARE = PROGRAMS / "jittor_checkpoint_compare.py"
pytestmark = [pytest.mark.slow, pytest.mark.all_cases]


@pytest.fixture(scope="module")
def compared(environment: dict[str, Environment]) -> Any:
    return run_inside(environment["jittor"], COMPARE)


def test_checkpointed_block_has_the_same_loss_and_gradients(compared: Any) -> None:
    plain, checkpointed = compared["plain"], compared["checkpointed"]

    assert checkpointed["loss"] == pytest.approx(plain["loss"], rel=1e-5)
    for plain_grad, grad in zip(plain["grads"], checkpointed["grads"], strict=True):
        largest = max(map(abs, plain_grad))
        assert grad == pytest.approx(plain_grad, rel=1e-5, abs=1e-5 * largest)


def test_checkpointed_block_runs_twice_and_draws_its_random_numbers_once(compared: Any) -> None:
    plain, checkpointed = compared["plain"], compared["checkpointed"]

    assert (plain["runs"], checkpointed["runs"]) == (1, 2)
    assert (plain["drawn"], checkpointed["drawn"]) == (2, 2)


def test_running_statistics_move_once(compared: Any) -> None:
    plain, checkpointed = compared["plain"], compared["checkpointed"]

    assert max(map(abs, plain["mean"])) > 0.001, "running statistics must have moved"
    assert checkpointed["mean"] == pytest.approx(plain["mean"], rel=1e-5)
    assert checkpointed["var"] == pytest.approx(plain["var"], rel=1e-5)


def test_backward_pass_has_the_dropout_mask_of_the_forward_pass(compared: Any) -> None:
    assert compared["same mask"]
