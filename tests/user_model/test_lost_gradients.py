"""A fault of TorchInductor that `try` names as the cause of wrong gradients."""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.engine.environments import Environment
from tests.processes import run_inside


@pytest.mark.all_cases
def test_a_compiled_step_in_bfloat16_loses_gradients(environment: dict[str, Environment]) -> None:
    """As docs/try.md says. Once a release repairs it, the page needs another look."""
    norms = run_inside(environment["torch"], Path(__file__).parent / "programs/lost_gradients.py")
    assert isinstance(norms, dict)
    assert norms["eager"] > 0.1
    assert norms["compiled"] == 0
