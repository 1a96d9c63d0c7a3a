"""What is read after each step, in the whole process and those it has started. Linux."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from framebench.instruments.host import read_mallinfo, read_status

Meter = Callable[[], int]
PROC = Path("/proc")


def bytes_meters(of_framework: dict[str, Meter]) -> dict[str, Meter]:
    """By instrument; `of_framework`: of its allocators, as far as they keep count."""
    meters = {"host.malloc": malloc} if read_mallinfo().arena else {}
    return of_framework | meters | {"host.private": private, "host.shared": shared, "host.children": children}


def malloc() -> int:
    """Bytes that malloc has given out and not taken back, in the whole process; 0 without glibc 2.33 or later."""
    info = read_mallinfo()
    return int(info.uordblks + info.hblkhd)


def private() -> int:
    """Bytes of memory that is resident and no file's, once malloc has returned what it can: RssAnon of proc(5)."""
    ctypes.CDLL(None).malloc_trim(0)
    return read_status("RssAnon")


def shared() -> int:
    """Bytes of shared memory that is resident: RssShmem of proc(5). Neither malloc's nor private."""
    return read_status("RssShmem")


def children() -> int:
    """Bytes that the processes which this one started have for themselves alone, and theirs. Of a page that is copied when it
    is written to, only the copy is a child's own."""
    return sum(map(_own_bytes, _started_by("self")))


def _started_by(process: str) -> Iterator[str]:
    for tasks in PROC.glob(f"{process}/task/*/children"):
        try:
            found = tasks.read_text().split()
        except OSError:  # it has ended
            continue
        for child in found:
            yield child
            yield from _started_by(child)


def _own_bytes(process: str) -> int:
    """Private_Clean and Private_Dirty of proc(5)."""
    try:
        lines = (PROC / process / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Private_") and "Huge" not in line)


class Readings:
    """What each meter says after each of some steps; room for them is made before the first."""

    def __init__(self, meters: dict[str, Meter], steps: int) -> None:
        self.meters = meters
        self.lines = {name: np.zeros(steps, np.int64) for name in meters}

    def take(self, step: int) -> None:
        """Garbage in cycles is no growth, unless the collector is kept off."""
        if gc.isenabled():
            gc.collect()
        for name, meter in self.meters.items():
            self.lines[name][step] = meter()

    def lists(self) -> dict[str, list[int]]:
        return {name: line.tolist() for name, line in self.lines.items()}
