"""Instruments read known allocations right: 512 MiB within 1 %."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from framebench.instruments.host import MALLOC_ENV
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
