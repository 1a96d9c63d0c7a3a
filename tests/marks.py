"""Marks of tests that skip them where the machine lacks something."""

from __future__ import annotations

import pytest

from framebench.instruments import nvml
from framebench.instruments.host import HostPeak

needs_host_peak = pytest.mark.skipif(
    not HostPeak.is_available(), reason="needs a writable /proc/self/clear_refs"
)
needs_gpu = pytest.mark.skipif(not nvml.list_gpus(), reason="needs a GPU: NVML finds none")
