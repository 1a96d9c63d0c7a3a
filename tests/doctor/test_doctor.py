"""What the machine does beside a measurement, as calibration sees it."""

from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from framebench.doctor.measure import measure_interference
from tests.processes import run_inside


@pytest.mark.parametrize(
    ("shares", "failed"),
    [
        ({"idle": 99.0, "steal": 0.1}, []),
        ({"idle": 60.0, "steal": 0.0}, ["cores busy with other things"]),
        ({"idle": 90.0, "steal": 5.0}, ["time stolen by the host"]),
        ({"idle": 90.0}, []),
    ],
)
def test_calibration_fails_where_other_processes_take_the_cores(shares, failed, monkeypatch):
    """Earlier load does not count, and shares that the kernel does not report are not checked."""
    monkeypatch.setattr("psutil.cpu_times_percent", Mock(return_value=SimpleNamespace(**shares)))
    monkeypatch.setattr("psutil.getloadavg", Mock(return_value=(99.0, 99.0, 99.0)))
    findings = measure_interference()
    assert [finding.check for finding in findings if not finding.passed] == failed


@pytest.mark.all_cases
def test_the_harness_adds_at_most_two_percent_to_a_step(environment):
    """Interleaved with a hand-written loop.

    Noise widens the interval, whose lower end must stay below 1.02; one in forty lies above the
    truth, so it is tried again where the machine is busy.
    """
    program = Path(__file__).parent / "programs" / "overhead.py"
    for _ in range(3):
        comparison = run_inside(environment["torch"], program, "15")
        if comparison["low"] <= 1.02:
            break
    assert comparison["low"] <= 1.02, comparison
