"""Decide how many processes may be alive at once, by what memory the machine and its GPU have."""

from __future__ import annotations

from pathlib import Path

import psutil

from framebench.engine.timed_process import TimedProcess
from framebench.instruments import nvml

# of what is free when a block begins: the rest is for steps, and for whoever else is there
SHARE = 0.6
GPU_SHARE = 0.85  # of a GPU, where pools keep what a step took
CGROUP = Path("/sys/fs/cgroup")


class Capacity:
    """What was free before any variant was alive, and what each has taken since. Bytes."""

    def __init__(self) -> None:
        self.host = read_free_memory()
        self.free_on_gpu = read_free_gpu_memory()
        self.taken_on_gpu: list[int] = []  # what each process has taken of the GPU

    def enter(self, pid: int | None = None) -> None:
        """Take in that one more process is ready.

        Where the GPU does not tell what the process holds, it is what is no longer free.
        """
        free = read_free_gpu_memory()
        if self.free_on_gpu is None or free is None:
            return
        held = None if pid is None else nvml.read_used_by(pid)
        if held is None:
            held = max(0, self.free_on_gpu - free - sum(self.taken_on_gpu))
        self.taken_on_gpu.append(held)

    def fits_more(self, alive: list[TimedProcess], more: int = 1) -> bool:
        """Say whether so many more processes, each as large as the largest alive, would fit."""
        fits_host = fits([process.held() for process in alive], self.host, more)
        fits_gpu = self.free_on_gpu is None or fits(
            self.taken_on_gpu, self.free_on_gpu, more, GPU_SHARE
        )
        return fits_host and fits_gpu


def fits(held: list[int], free: int, more: int = 1, share: float = SHARE) -> bool:
    """Say whether these and so many more, each as large as the largest, take no more than a share
    of what is free.
    """
    return sum(held) + more * max(held, default=0) <= share * free


def read_free_memory(cgroup: Path = CGROUP) -> int:
    """Return the bytes that the machine, or the control group if that is tighter, still has."""
    free = int(psutil.virtual_memory().available)
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        used = (cgroup / "memory.current").read_text().strip()
        return free if limit == "max" else min(free, max(0, int(limit) - int(used)))
    except (OSError, ValueError):
        return free


def read_free_gpu_memory() -> int | None:
    """Return the bytes that are free on the GPU; None without one, or where it does not tell."""
    state = nvml.read_state()
    if "memory_bytes" not in state or "used_bytes" not in state:
        return None
    return int(state["memory_bytes"] - state["used_bytes"])
