"""The step's thread stays on its core; a loader's thread has every core that the user allowed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = "tests.instruments.programs.cores_of_threads"
pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or os.cpu_count() == 1, reason="needs Linux and two cores"
)


def read_cores(*allowed: int) -> Any:
    """Return the cores of the step's and the loader's thread, at the first pin and the second."""
    command = [sys.executable, "-m", PROGRAM, *map(str, allowed)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_loader_thread_leaves_the_core_of_the_step():
    assert read_cores(0, 1) == [[[0], [0, 1]], [[1], [0, 1]]]


def test_a_loader_thread_stays_on_the_cores_of_a_taskset():
    assert read_cores(1) == [[[1], [1]], [[1], [1]]]
