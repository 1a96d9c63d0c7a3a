"""Fixtures: what fake tensors predict."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from framebench.engine.environments import Environment
from tests.processes import run_inside

PREDICT = """
import json, sys
from framebench.features.predict.worker import predict
from framebench.suite.hypothetical import named
print(json.dumps({c: predict(named(c)) for c in sys.argv[1:]}))
"""
Predicted = Callable[..., dict[str, dict[str, int]]]


@pytest.fixture
def predicted(environment: dict[str, Environment]) -> Predicted:
    def predict(*cases: str) -> dict[str, dict[str, int]]:
        found = run_inside(environment["torch"], PREDICT, *cases)
        assert isinstance(found, dict)
        return found

    return predict
