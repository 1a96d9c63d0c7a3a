"""The step's thread stays on its core; a loader's thread has every core that the user allowed."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pytest

from tests.processes import run_process

PROGRAM = "tests.instruments.programs.cores_of_threads"
pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or os.cpu_count() == 1, reason="needs Linux and two cores"
)


def pin_twice(*allowed: int) -> Any:
    """Pin a process to the first of its allowed cores, and then to the last.

    Returns the cores of its threads, by name, after each pin.
    """
    command = [sys.executable, "-m", PROGRAM, *allowed]
    return json.loads(run_process(command).stdout)


@pytest.mark.parametrize("allowed", [[0, 1], [1]], ids=["both cores", "a taskset of one"])
def test_a_loader_thread_leaves_the_core_of_the_step_and_stays_on_those_allowed(allowed):
    first, second = pin_twice(*allowed)
    assert first == {"step": allowed[:1], "loader": allowed}
    assert second == {"step": allowed[-1:], "loader": allowed}
