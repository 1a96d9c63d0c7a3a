"""What the machine does beside a measurement, as calibration sees it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from framebench.doctor.measure import measure_interference


@pytest.mark.parametrize(
    ("shares", "failed"),
    [
        ({"idle": 99.0, "steal": 0.1}, []),
        ({"idle": 60.0, "steal": 0.0}, ["cores busy with other things"]),
        ({"idle": 90.0, "steal": 5.0}, ["time stolen by the host"]),
        ({"idle": 90.0}, []),
    ],
)
def test_what_others_do_now_counts(
    shares: dict[str, float], failed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not what they did before, and not what a kernel does not tell."""
    monkeypatch.setattr("psutil.cpu_times_percent", lambda _: SimpleNamespace(**shares))
    monkeypatch.setattr("psutil.getloadavg", lambda: (99.0, 99.0, 99.0))
    assert [found.check for found in measure_interference() if not found.passed] == failed
