"""Jittor's steps in float64 on a CPU: right to float64's precision, or refused with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.processes import run_inside
from tests.worker.test_mathematics import PlantedBug, check_planted

PROGRAMS = Path(__file__).parent / "programs"
PARTS = PROGRAMS / "jittor_float64_parts.py"
CLOSE = 1e-9  # float32 anywhere in a step leaves some 1e-8
CASES = (
    "resnet50/jittor/train/fp32/b4/tiny",
    "transformer/jittor/train/fp32/b4/tiny",
    "unet3d/jittor/train/fp32/b4/tiny",
    "transformer/jittor/train/amp_level_3/b4/tiny",
    "transformer/jittor/eval/no_grad/b4/tiny",
    "transformer/jittor/eval/after_training/b4/tiny",
    "resnet50/jittor/pair/in_turn/b4/tiny",
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def parts(environment) -> Any:
    """Return what the program PARTS prints of single operations, which it names.

    `before`, `float64` and `after`: errors against NumPy by operation, before float64 is switched
    on, while it is on, and after. `refused`: the reason by operation.
    """
    return run_inside(environment["jittor"], PARTS)


def test_steps_in_float64_agree_with_references(environment):
    untouched = [PlantedBug(case, case) for case in CASES]
    for outcome in check_planted(environment["jittor"], untouched).values():
        assert outcome["computed"], outcome
        assert outcome["error"] < CLOSE, outcome


def test_numbers_and_derivatives_are_float64(parts):
    assert parts["float64"]
    for operation, error in parts["float64"].items():
        assert error <= 1e-15, operation


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        ("a cast", "unary.cast (for binary.multiply)"),
        ("half precision", "unary.cast"),
        ("erfinv", "erfinv"),
        ("pooling", "rcount"),
        ("before a wait", "unary.cast"),
    ],
)
def test_operation_that_stays_in_float32_is_named(parts, operation, reason):
    assert reason in parts["refused"][operation]


def test_switching_float64_off_restores_float32(parts):
    assert parts["after"] == parts["before"]
    assert parts["before"]["number on the right"] > 1e-10, "a number is float32, as Jittor has it"
