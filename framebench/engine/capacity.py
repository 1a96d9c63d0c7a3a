"""Decide how many processes may be alive at once, by the memory of the machine and its GPU."""

from __future__ import annotations

from pathlib import Path

import psutil

from framebench.engine.timed_process import TimedProcess
from framebench.instruments import nvml

# How much of the host's free memory processes of a block may take when it begins; the rest is for
# their steps, and for other programs.
HOST_SHARE = 0.6
# The same share of a GPU's free memory. Pools already hold the memory of earlier steps, so
# processes grow less.
GPU_SHARE = 0.85
CGROUP = Path("/sys/fs/cgroup")


class Capacity:
    """The bytes that were free before any variant was alive, and those that each took since."""

    def __init__(self) -> None:
        """Read what is free now."""
        self.free_on_host = read_free_memory()
        self.free_on_gpu = read_free_gpu_memory()
        self.gpu_bytes_by_process: list[int] = []  # in the order of their starts

    def count_process(self, pid: int | None = None) -> None:
        """Count the GPU memory that one more process takes.

        If the GPU does not tell the memory of each process, it is the growth since the process
        before.
        """
        free = read_free_gpu_memory()
        if self.free_on_gpu is None or free is None:
            return
        taken = None if pid is None else nvml.read_used_by(pid)
        if taken is None:
            taken = max(0, self.free_on_gpu - free - sum(self.gpu_bytes_by_process))
        self.gpu_bytes_by_process.append(taken)

    def fits_more(self, alive: list[TimedProcess], more: int = 1) -> bool:
        """Return whether so many more processes, each as large as the largest alive, would fit."""
        taken_on_host = [process.read_resident_peak() for process in alive]
        if not fits(taken_on_host, self.free_on_host, more):
            return False
        return self.free_on_gpu is None or fits(
            self.gpu_bytes_by_process, self.free_on_gpu, more, GPU_SHARE
        )


def fits(taken: list[int], free: int, more: int = 1, share: float = HOST_SHARE) -> bool:
    """Return whether `more` processes, each as large as the largest, fit into a share of `free`.

    `taken` has what each process takes now. All in bytes.
    """
    return sum(taken) + more * max(taken, default=0) <= share * free


def read_free_memory(cgroup: Path = CGROUP) -> int:
    """Return the bytes that the machine, or the control group if that is tighter, still has."""
    free = int(psutil.virtual_memory().available)
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        used = (cgroup / "memory.current").read_text().strip()
        if limit == "max":
            return free
        return min(free, max(0, int(limit) - int(used)))
    except (OSError, ValueError):
        return free


def read_free_gpu_memory() -> int | None:
    """Return the bytes that are free on the GPU, or None if there is no GPU or it does not tell."""
    memory = nvml.read_memory()
    return memory.total - memory.used if memory else None
