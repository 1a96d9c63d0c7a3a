"""Our checkpointing for Jittor, against the same block without it: gradients, random numbers and running statistics."""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.engine.environments import Environment
from tests.processes import run_inside

PROGRAMS = Path(__file__).parent / "programs"
COMPARE = PROGRAMS / "jittor_checkpoint_compare.py"
pytestmark = pytest.mark.slow


@pytest.mark.all_cells
def test_a_block_with_dropout_and_batch_norm(environment: dict[str, Environment]) -> None:
    plain, checkpointed, same_mask = run_inside(environment["jittor"], COMPARE)
    assert (plain.pop("runs"), checkpointed.pop("runs")) == (1, 2)
    assert plain["drawn"] == checkpointed["drawn"] == 2
    grads = plain.pop("grads"), checkpointed.pop("grads")
    for one, other in zip(*grads, strict=True):
        assert flat(one) == pytest.approx(flat(other), rel=1e-5, abs=1e-5 * max(map(abs, flat(one))))
    for name, value in plain.items():
        assert value == pytest.approx(checkpointed[name], rel=1e-5), name
    assert any(abs(mean) > 0.001 for mean in plain["mean"]), "running statistics must have moved"
    assert same_mask


def flat(nested: object) -> list[float]:
    return [v for part in nested for v in flat(part)] if isinstance(nested, list) else [nested]
