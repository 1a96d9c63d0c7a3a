"""What is read after each step, of the whole process and those it has started. Linux."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from framebench.instruments.host import HostPeak, read_mallinfo, read_status

Meter = Callable[[], int]
PROC = Path("/proc")


def make_host_meters() -> dict[str, Meter]:
    """Return the meters of the process that exist on this machine, by instrument."""
    meters: dict[str, Meter] = {}
    if read_mallinfo().arena:  # needs glibc 2.33 or later
        meters["host.malloc"] = read_malloc
    meters["host.private"] = read_private
    meters["host.shared"] = read_shared
    meters["host.children"] = read_children
    return meters


def make_rise_meters() -> dict[str, Meter]:
    """Return the meter of a step's own peak, if the kernel lets this process reset its peak.

    A reading is the bytes by which resident memory rose above what it was at the last reading.
    """
    if not HostPeak.is_available():
        return {}
    peak = HostPeak()
    peak.start(collect=False)

    def read_rise() -> int:
        rise = peak.measure_growth()
        peak.start(collect=False)
        return rise

    return {"rise": read_rise}


def read_malloc() -> int:
    """Return the bytes that malloc has given out and not taken back, in the whole process."""
    info = read_mallinfo()
    return int(info.uordblks + info.hblkhd)


def read_private() -> int:
    """Return the resident bytes that are no file's: RssAnon of proc(5).

    Before that, malloc has to return free memory to the system.
    """
    ctypes.CDLL(None).malloc_trim(0)
    return read_status("RssAnon")


def read_shared() -> int:
    """Return the resident bytes of shared memory: RssShmem of proc(5).

    Shared memory is neither malloc's nor private.
    """
    return read_status("RssShmem")


def read_children() -> int:
    """Return the bytes that this process's descendants have for themselves alone.

    A page that parent and child share becomes the child's own when it is copied on a write.
    """
    return sum(read_own_bytes(process) for process in list_descendants("self"))


def list_descendants(process: str) -> Iterator[str]:
    """Yield the ids of a process's children, and of theirs."""
    for tasks in PROC.glob(f"{process}/task/*/children"):
        try:
            children = tasks.read_text().split()
        except OSError:  # the process has ended
            continue
        for child in children:
            yield child
            yield from list_descendants(child)


def read_own_bytes(process: str) -> int:
    """Return a process's Private_Clean and Private_Dirty of proc(5) in bytes; 0 if it has ended."""
    try:
        lines = (PROC / process / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    kib = 0
    for line in lines:
        if line.startswith("Private_") and "Huge" not in line:
            kib += int(line.split()[1])
    return 1024 * kib


class MeterReadings:
    """The readings of each meter after each step.

    Their memory is taken before the first step, so that it does not count as growth.
    """

    def __init__(self, meters: dict[str, Meter], steps: int) -> None:
        """Take the memory for the readings of so many steps."""
        self.meters = meters
        self.series = {name: np.zeros(steps, np.int64) for name in meters}

    def take(self, step: int) -> None:
        """Read every meter after a step.

        Garbage in cycles is no growth, unless the strategy keeps the collector off.
        """
        if gc.isenabled():
            gc.collect()
        for name, meter in self.meters.items():
            self.series[name][step] = meter()

    def as_lists(self) -> dict[str, list[int]]:
        """Return the readings by meter, one for each step."""
        return {name: series.tolist() for name, series in self.series.items()}
