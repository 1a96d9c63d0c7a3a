"""JAX's loss scale reacts to an overflow, and float16 with it trains on a CPU too; Adafactor takes no layers together."""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.engine.environments import Environment
from tests.processes import run_inside

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).parent / "programs"
LOSS_SCALE = PROGRAMS / "jax_strategies_loss_scale.py"


def test_an_overflow_halves_the_loss_scale_and_leaves_the_step_out(environment: dict[str, Environment]) -> None:
    """Columns: the weight, the scale, the momentum. The gradient is 8 / scale; two good steps double the scale again."""
    first, overflow, third, fourth = run_inside(environment["jax"], LOSS_SCALE)  # type: ignore[misc]
    assert first == [-1, 8, 1]
    assert overflow == [-1, 4, 1]
    assert third == pytest.approx([-3.9, 4, 2.9])
    assert fourth == pytest.approx([-8.51, 8, 4.61])


AMP_FP16 = PROGRAMS / "jax_strategies_amp_fp16.py"


@pytest.mark.parametrize(
    ("workload", "strategy"),
    [
        *(pytest.param(w, "amp_fp16", marks=pytest.mark.all_cells) for w in ("resnet50", "unet3d")),
        ("transformer", "amp_fp16"),
        ("transformer", "amp_fp16+multi_steps"),  # the scale lies inside what adds the gradients up
    ],
)
def test_a_loss_scale_trains_on_the_cpu_but_not_in_float16(
    workload: str, strategy: str, environment: dict[str, Environment]
) -> None:
    found = run_inside(environment["jax"], AMP_FP16, f"{workload}/jax/train/{strategy}/b4/tiny")
    assert isinstance(found, dict)
    assert found["verification"]["passed"], found["verification"]
    assert found["evidence"]["scale"] > 1 <= found["evidence"]["steps_without_overflow"]
    assert not found["proven"], "XLA:CPU has begun to multiply float16"


SCANNED = PROGRAMS / "jax_strategies_scanned.py"


def test_adafactor_is_not_given_layers_as_one_stack(environment: dict[str, Environment]) -> None:
    """optax would clip, and take the size, of all of them together; AdamW takes each number alone."""
    cases = [f"transformer/jax/train/{strategy}/b4/tiny" for strategy in ("checkpoint", "adafactor+checkpoint")]
    assert run_inside(environment["jax"], SCANNED, *cases) == [True, False]
