"""Marks of tests that are skipped where the machine lacks something, or run rarely."""

from __future__ import annotations

from typing import Any

import pytest
from _pytest.mark import ParameterSet

from framebench.instruments import nvml
from framebench.instruments.host import HostPeak

needs_host_peak = pytest.mark.skipif(
    not HostPeak.is_available(), reason="needs a writable /proc/self/clear_refs"
)
needs_gpu = pytest.mark.skipif(not nvml.list_gpus(), reason="needs a GPU: NVML finds none")


def rarely(*values: object, **options: Any) -> ParameterSet:
    """Return parameters of a test that `make test-all` runs, and `make test` does not."""
    return pytest.param(*values, marks=pytest.mark.all_cases, **options)
