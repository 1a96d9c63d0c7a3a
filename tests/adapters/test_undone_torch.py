"""Proofs in PyTorch say no where the strategy is undone, and yes where nobody touches it."""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.engine.environments import Environment
from tests.adapters.undone import judge_undone, judge_untouched, read_sabotages, read_untouched
from tests.processes import run_inside

pytestmark = pytest.mark.slow
ROUNDING = Path(__file__).parent / "programs/undone_rounding.py"
TABLES = ("torch", pytest.param("torch_compiled", marks=pytest.mark.all_cases))


@pytest.mark.parametrize("table", TABLES)
def test_undone_strategies_are_not_proven(table: str, environment: dict[str, Environment]) -> None:
    proven, refuted = judge_undone(environment["torch"], read_sabotages(table))
    assert proven == {}
    assert refuted


@pytest.mark.all_cases
@pytest.mark.parametrize("table", ["torch", "torch_compiled"])
def test_untouched_strategies_are_proven(table: str, environment: dict[str, Environment]) -> None:
    proven, refuted = judge_untouched(environment["torch"], read_untouched(table))
    assert proven
    assert refuted == {}


def test_rounding_decides_whether_fp32_and_tf32_are_proven(
    environment: dict[str, Environment],
) -> None:
    """For each set of operators that round: whether fp32 is proven, and whether tf32 is."""
    assert run_inside(environment["torch"], ROUNDING) == {
        "": [True, False],
        "mm": [False, False],
        "convolution": [False, False],
        "mm convolution": [False, True],
    }
