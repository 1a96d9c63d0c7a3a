"""Free memory is written to before each round, since a virtual machine may not have it yet."""

from __future__ import annotations

import resource
from unittest.mock import Mock

import pytest

from framebench.engine import blocks, free_memory
from framebench.engine.groups import Group
from framebench.engine.runner import Options
from framebench.engine.timed_process import TimedProcess, Variant
from framebench.suite.case import Case

MIB = 2**20
PAGE = resource.getpagesize()
LARGEST_PAGE = 2 * MIB  # a kernel may give memory in pages of this size by itself


def count_first_writes() -> int:
    """Return how many pages this process has got from the kernel."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def test_each_page_is_written_to():
    before = count_first_writes()
    assert free_memory.touch(64 * MIB) == 64 * MIB
    assert count_first_writes() - before >= 64 * MIB // LARGEST_PAGE


@pytest.mark.parametrize(("free_bytes", "touched_bytes"), [(64 * MIB, 32 * MIB), (PAGE, 0), (0, 0)])
def test_half_of_the_free_memory_is_left_to_others(free_bytes, touched_bytes, monkeypatch):
    monkeypatch.setattr(free_memory, "read_free_memory", Mock(return_value=free_bytes))
    assert free_memory.touch(2**40) == touched_bytes


@pytest.mark.parametrize(("rounds", "touches"), [(3, 3), (0, 0)])
def test_twice_the_largest_process_is_touched_before_each_round(
    rounds, touches, fake_worker, tmp_path, monkeypatch
):
    touch = Mock()
    monkeypatch.setattr(blocks.free_memory, "touch", touch)
    peaks = {"fp32": 3 * MIB, "checkpoint": 5 * MIB}

    def read_peak(process: TimedProcess) -> int:
        return peaks[process.variant.case.strategy]

    monkeypatch.setattr(TimedProcess, "read_resident_peak", read_peak)
    variants = []
    for strategy in peaks:
        case = Case.from_id(f"transformer/torch/train/{strategy}/b4/tiny")
        variants.append(Variant(case, fake_worker))
    with blocks.Run("session", Options(rounds=rounds), tmp_path) as run:
        blocks.measure([Group("group", tuple(variants), ())], run)
    assert [call.args for call in touch.call_args_list] == [(2 * 5 * MIB,)] * touches
