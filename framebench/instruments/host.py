"""Read the peak host memory of a region of code from the kernel's own high-water mark. Linux only.

The method needs a fresh process whose allocator returns memory at once (`MALLOC_ENV`): with glibc's
defaults freed memory stays in the process, and the next step's peak hides in it. Pages that were
never touched do not count. The kernel counts pages in batches for each core, so a peak is off by
some hundred KiB: 0.16 MiB too little on two cores, whatever was allocated.
"""

from __future__ import annotations

import ctypes
import gc
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MALLOC_ENV = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "131072"}
_CLEAR = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"  # written to clear_refs it resets VmHWM to the present VmRSS (proc(5))


def read_status(field: str, process: int | str = "self") -> int:
    """Return `VmRSS`, `VmHWM` or another field of a process's /proc/<id>/status in bytes.

    Raises OSError if there is no such process, or its status has no such line.
    """
    status = Path(f"/proc/{process}/status")
    for line in status.read_text().splitlines():
        if line.startswith(field + ":"):
            _field, kib, *_unit = line.split()
            return int(kib) * 1024
    raise OSError(f"{status} has no {field}")


class Mallinfo(ctypes.Structure):
    """Hold the fields of struct mallinfo2 of glibc 2.33 and newer (mallinfo(3))."""

    _fields_ = [
        ("arena", ctypes.c_size_t),
        ("ordblks", ctypes.c_size_t),
        ("smblks", ctypes.c_size_t),
        ("hblks", ctypes.c_size_t),
        ("hblkhd", ctypes.c_size_t),
        ("usmblks", ctypes.c_size_t),
        ("fsmblks", ctypes.c_size_t),
        ("uordblks", ctypes.c_size_t),
        ("fordblks", ctypes.c_size_t),
        ("keepcost", ctypes.c_size_t),
    ]


def read_mallinfo() -> Mallinfo:
    """Return the bytes that malloc has handed out and not taken back.

    `hblkhd` are the bytes in large blocks, each mapped by itself, and `uordblks` those in smaller
    ones. All are 0 if the C library does not tell.
    """
    # if the C library lacks the function, `Mallinfo()` is called in its place: all fields are 0
    function: Any = getattr(ctypes.CDLL(None), "mallinfo2", Mallinfo)
    function.restype = Mallinfo
    return function()  # type: ignore[no-any-return]


def measure_large_blocks() -> int | None:
    """Return the bytes in malloc's large blocks and in shared memory, or None if malloc hides them.

    With `MALLOC_ENV` these are blocks of 64 KiB and more: tensors and arrays, and no code.
    """
    info = read_mallinfo()
    if not info.arena:
        return None
    return int(info.hblkhd) + read_status("RssShmem")


@dataclass
class HostPeak:
    """Measure how this process grows in a region: start() ... work ... measure_growth()."""

    resident_before: int = 0

    @staticmethod
    def is_available() -> bool:
        """Return whether the kernel lets this process reset its high-water mark."""
        return _CLEAR.exists() and os.access(_CLEAR, os.W_OK)

    def start(self, collect: bool = True) -> None:
        """Begin the region. If `collect`, garbage is collected first, which takes time."""
        if collect:
            gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        _CLEAR.write_text(_RESET_PEAK)
        self.resident_before = read_status("VmRSS")

    def measure_growth(self) -> int:
        """Return the bytes by which resident memory rose above its level at start()."""
        return max(0, read_status("VmHWM") - self.resident_before)
