"""A worker that only plays its part, and the log of what it did."""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.engine.environments import Environment
from tests.processes import make_fake_environment


@pytest.fixture
def fake_worker(tmp_path: Path) -> Environment:
    return make_fake_environment("engine/failing_worker.py", tmp_path)


@pytest.fixture
def event_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EVENT_LOG", str(tmp_path / "event_log"))
    return tmp_path / "event_log"
