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


def read_cores(*allowed: int) -> Any:
    """Return the cores of the step's and the loader's thread, at the first pin and the second."""
    command = [sys.executable, "-m", PROGRAM, *allowed]
    return json.loads(run_process(command).stdout)


def test_a_loader_thread_leaves_the_core_of_the_step():
    assert read_cores(0, 1) == [[[0], [0, 1]], [[1], [0, 1]]]


def test_a_loader_thread_stays_on_the_cores_of_a_taskset():
    assert read_cores(1) == [[[1], [1]], [[1], [1]]]
