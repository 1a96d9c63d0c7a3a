"""Which steps the peak of a steady step is read from."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from framebench.suite.protocol import Task
from framebench.worker import worker

TASK = Task("transformer/torch/train/fp32/b4/cpu", "memory", memory_budget_s=0)  # slow steps


class KeepingAdapter:
    """Steps that keep 10 bytes each until `most` bytes are held."""

    workload: Any = SimpleNamespace(update_period=1)

    def __init__(self, most: int) -> None:
        self.held = 20
        self.most = most

    def live_bytes(self) -> int:
        return self.held


@pytest.mark.parametrize(
    ("most", "peaks"),
    [
        (20, [20]),
        (50, [30, 40, 50, 50]),  # as of L-BFGS, until its history is full
        (10**6, [30]),  # no number of steps is enough
    ],
)
def test_steps_are_read_until_they_keep_nothing_more(most, peaks, monkeypatch):
    def read_peaks(adapter: KeepingAdapter) -> dict[str, int]:
        adapter.held = min(adapter.held + 10, adapter.most)
        return {"host.rss": adapter.held}

    monkeypatch.setattr(worker, "measure_peaks", read_peaks)
    steady: Any = worker.measure_steady_peaks(KeepingAdapter(most), TASK)  # type: ignore[arg-type]
    assert [peak["host.rss"] for peak in steady] == peaks
