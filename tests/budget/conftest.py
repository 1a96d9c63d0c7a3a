"""Fixtures: what fake tensors predict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import run_inside

PREDICT = Path(__file__).parent / "programs" / "predict.py"
Predicted = Callable[..., dict[str, dict[str, int]]]


@pytest.fixture
def predicted(environment) -> Predicted:
    def predict(*cases: str) -> dict[str, dict[str, int]]:
        return run_inside(environment["torch"], PREDICT, *cases)

    return predict
