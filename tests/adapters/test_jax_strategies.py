"""The loss scale in JAX reacts to overflows, and Adafactor is given no stacked layers."""

from pathlib import Path

import pytest

from tests.marks import rarely
from tests.processes import run_inside

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).parent / "programs"
LOSS_SCALE = PROGRAMS / "jax_strategies_loss_scale.py"
AMP_FP16 = PROGRAMS / "jax_strategies_amp_fp16.py"
STACKED = PROGRAMS / "jax_strategies_stacked.py"


def test_overflow_halves_the_loss_scale_and_changes_nothing_else(environment):
    """The gradient is 8 / scale. Two steps without overflow in a row double the scale."""
    steps = run_inside(environment["jax"], LOSS_SCALE)

    first, overflow, third, fourth = steps
    assert first == {"weight": -1, "scale": 8, "momentum": 1}
    assert overflow == {"weight": -1, "scale": 4, "momentum": 1}
    assert third == pytest.approx({"weight": -3.9, "scale": 4, "momentum": 2.9})
    assert fourth == pytest.approx({"weight": -8.51, "scale": 8, "momentum": 4.61})


@pytest.mark.parametrize(
    ("workload", "strategy"),
    [
        rarely("resnet50", "amp_fp16"),
        rarely("unet3d", "amp_fp16"),
        ("transformer", "amp_fp16"),
        ("transformer", "amp_fp16+multi_steps"),  # the scale lies inside what adds gradients up
    ],
)
def test_amp_fp16_trains_on_a_cpu_but_is_not_proven(workload, strategy, environment):
    case = f"{workload}/jax/train/{strategy}/b4/tiny"
    found = run_inside(environment["jax"], AMP_FP16, case)

    assert found["verification"]["passed"], found["verification"]
    assert found["evidence"]["scale"] > 1
    assert found["evidence"]["steps_without_overflow"] >= 1
    assert not found["proven"], "XLA:CPU has begun to multiply float16"


def test_adafactor_is_given_no_stacked_layers(environment):
    """Adafactor clips updates by the size of each weight; of a stack it would take all layers'
    together. AdamW treats each number alone, so its layers may be stacked.
    """
    cases = {
        "AdamW": "transformer/jax/train/checkpoint/b4/tiny",
        "Adafactor": "transformer/jax/train/adafactor+checkpoint/b4/tiny",
    }

    can_stack = run_inside(environment["jax"], STACKED, *cases.values())

    assert dict(zip(cases, can_stack, strict=True)) == {"AdamW": True, "Adafactor": False}
