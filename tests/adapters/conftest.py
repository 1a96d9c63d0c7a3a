"""Fixtures: a fake GPU."""

from __future__ import annotations

import sys
from unittest.mock import Mock

import pytest

from framebench.instruments import nvml
from tests.adapters.fake_gpu import FakeNvml, make_h200


@pytest.fixture
def fake_nvml(monkeypatch) -> FakeNvml:
    """Have NVML find one H200."""
    library = make_h200()
    monkeypatch.setitem(sys.modules, "pynvml", library)
    monkeypatch.setattr(nvml, "list_gpus", Mock(return_value=("NVIDIA H200",)))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return library
