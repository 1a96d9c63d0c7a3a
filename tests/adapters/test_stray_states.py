"""A weight that is trained and should not be is named by verification, without a traceback."""

from __future__ import annotations

from pathlib import Path

from framebench.engine.environments import Environment
from tests.processes import run_inside

PROGRAMS = Path(__file__).parent / "programs"
TRAINED = PROGRAMS / "stray_states_trained.py"


def test_a_teacher_that_is_trained_is_wrong_and_named(environment: dict[str, Environment]) -> None:
    found = run_inside(environment["torch"], TRAINED, "teacher")
    assert isinstance(found, dict)
    assert not found["passed"]
    assert "first moment of" in found["reason"]
    assert "such as teacher." in found["reason"]


def test_a_trained_weight_of_no_model_is_wrong_and_named_by_its_shape(
    environment: dict[str, Environment],
) -> None:
    found = run_inside(environment["torch"], TRAINED, "unknown")
    assert isinstance(found, dict)
    assert (
        "first moment of 1 tensors that should have none, such as unknown weight (3,)"
        in found["reason"]
    )
