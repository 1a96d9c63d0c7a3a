"""Instruments read known allocations right: 512 MiB within 1 %."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from framebench.instruments import nvml
from framebench.instruments.host import MALLOC_ENV
from framebench.instruments.nvml import ProcessPeak
from tests.marks import needs_gpu, needs_host_peak
from tests.processes import run_inside

MIB = 2**20
KNOWN = 512 * MIB

PROGRAMS = Path(__file__).parent / "programs"
HOST = PROGRAMS / "instruments_host.py"


@needs_host_peak
def test_the_host_peak_counts_freed_memory(environment):
    """The program allocates and frees 512 MiB three times, and reads the peak each time."""
    result = run_inside(environment["torch"], HOST, variables=MALLOC_ENV)
    assert result == pytest.approx([KNOWN] * 3, rel=0.01)


SMALL = PROGRAMS / "instruments_small.py"


@needs_host_peak
def test_small_regions_are_read_as_well_as_the_kernel_counts(environment):
    """The kernel counts pages in batches for each core, whatever the region's size
    (`include/linux/percpu_counter.h`).
    """
    cores = os.cpu_count() or 1
    pages = cores * max(32, 2 * cores)  # that may be counted late
    errors = run_inside(environment["torch"], SMALL, variables=MALLOC_ENV)
    assert errors
    for error in errors:
        assert abs(error) <= pages * os.sysconf("SC_PAGE_SIZE") + MIB // 8


PLAN = PROGRAMS / "instruments_plan.py"


def test_xlas_plan_has_the_bytes_of_a_known_program(environment):
    assert run_inside(environment["jax"], PLAN) == pytest.approx(KNOWN, rel=0.01)


JITTOR = PROGRAMS / "instruments_jittor.py"


def test_jittor_pool_peak_of_two_arrays_and_a_view(environment):
    """The program makes two arrays of half of KNOWN, then keeps a view of one, then nothing."""
    found = run_inside(environment["jittor"], JITTOR)
    assert found["peak"] == pytest.approx(KNOWN, rel=0.01)
    assert found["both_arrays"] == pytest.approx(KNOWN, rel=0.01)
    assert found["view_alone"] == pytest.approx(KNOWN / 2, rel=0.01), "a view keeps its whole block"
    assert found["after"] < 0.01 * KNOWN
    assert found["largest_block"] == KNOWN // 2
    assert found["largest_block_since_reset"] == 0


CUDA = PROGRAMS / "instruments_cuda.py"


@pytest.mark.gpu
@needs_gpu
def test_torchs_allocator_on_a_gpu_reads_a_known_peak(environment):
    assert run_inside(environment["torch"], CUDA) == pytest.approx(KNOWN, rel=0.01)


class PolledNvml:
    """NVML as documented, with two processes on one GPU.

    `used` has the bytes of process 42 at each poll, None where they are unknown; the last stays.
    """

    NVMLError = RuntimeError

    def __init__(self, used: list[int | None]) -> None:
        self.used = used

    def nvmlDeviceGetCount(self) -> int:
        return 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetComputeRunningProcesses(self, device: int) -> list[SimpleNamespace]:
        now = self.used.pop(0) if len(self.used) > 1 else self.used[0]
        other = SimpleNamespace(pid=1, usedGpuMemory=10**12)
        return [other, SimpleNamespace(pid=42, usedGpuMemory=now)]


@pytest.mark.parametrize(("used", "peak"), [([100, 700, None, 300], 700), ([None], None)])
def test_nvml_keeps_the_peak_of_one_process(used, peak, monkeypatch):
    monkeypatch.setattr(nvml, "list_gpus", Mock(return_value=("a GPU",)))
    monkeypatch.setitem(sys.modules, "pynvml", PolledNvml(used))
    with ProcessPeak(42, interval_s=0.001) as process_peak:
        while len(used) > 1:  # the last one stays
            time.sleep(0.001)
    assert process_peak.peak == peak
