"""Fixtures: a card that is not there."""

from __future__ import annotations

import sys

import pytest

from framebench.instruments import nvml
from tests.adapters.fake_card import FakeNvml, h200


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    found = h200()
    monkeypatch.setitem(sys.modules, "pynvml", found)  # type: ignore[arg-type]
    monkeypatch.setattr(nvml, "list_gpus", lambda: ("NVIDIA H200",))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return found
