"""Fixtures: processes that act, and their diary."""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.engine.environments import Environment
from tests.processes import acting


@pytest.fixture
def impostor(tmp_path: Path) -> Environment:
    return acting("engine/misbehaving.py", tmp_path)


@pytest.fixture
def diary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DIARY", str(tmp_path / "diary"))
    return tmp_path / "diary"
