"""Counters of the kernel and the processor."""

from __future__ import annotations

import mmap
import threading

import pytest

from framebench.instruments.counters import PAGE_FAULTS, SOFTWARE, Counter


def run_loop(turns: int) -> None:
    for _ in range(turns):
        pass


def test_twice_the_loop_is_twice_the_instructions():
    counter = Counter.open()
    if counter is None:
        pytest.skip("this processor, or the machine it is shown by, counts no instructions")
    run_loop(1000)
    found = []
    for turns in (10**5, 2 * 10**5):
        before = counter.read()
        run_loop(turns)
        found.append(counter.read() - before)
    assert 1.9 < found[1] / found[0] < 2.1


def test_later_threads_are_counted():
    """By page faults, which the kernel counts on every machine: each page is touched for the first
    time by the thread.
    """
    counter = Counter.open(SOFTWARE, PAGE_FAULTS)
    if counter is None:
        pytest.skip("the kernel lets nobody count here")
    pages = 500
    memory = mmap.mmap(-1, pages * mmap.PAGESIZE)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    before = counter.read()

    def touch():
        for page in range(pages):
            memory[page * mmap.PAGESIZE] = 1

    thread = threading.Thread(target=touch)
    thread.start()
    thread.join()
    assert pages <= counter.read() - before < 2 * pages
