"""The log of what a fake worker did."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def event_log(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("EVENT_LOG", str(tmp_path / "event_log"))
    return tmp_path / "event_log"
