"""Two switches that each replace the loss are refused in any order, whatever the catalog says."""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.engine.environments import Environment
from tests.processes import run_inside

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).parent / "programs"
SWITCHED = PROGRAMS / "refused_switched.py"


@pytest.mark.parametrize(
    ("framework", "part"), [("torch", "objective"), ("jax", "loss"), ("jittor", "loss")]
)
def test_two_strategies_that_replace_the_loss_are_refused_and_named(
    framework: str, part: str, environment: dict[str, Environment]
) -> None:
    assert run_inside(environment[framework], SWITCHED, framework) == [
        f"chunked_loss and distill do not combine: both change the {part}",
        f"distill and chunked_loss do not combine: both change the {part}",
    ]
