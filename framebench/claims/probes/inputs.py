"""By how much reading a data set grows a process: `python -m framebench.claims.probes.inputs`. Linux; NumPy alone.

The same BYTES of images are read batch by batch, once from arrays in a list, once from a memory-mapped file. Resident memory
(VmRSS) contains the pages of a file that were touched, which the kernel may take back; private memory (RssAnon) does not. So
the kernel is asked to take back what it can of either (MADV_PAGEOUT), as it does where memory is short. Then the process may
have half of the data's bytes for itself (RLIMIT_DATA): how many batches can be read either way?
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from framebench.instruments.host import status_bytes

BATCHES, BATCH_BYTES = 64, 2**22  # 256 MiB
MADV_PAGEOUT = 21  # of linux/mman.h, from Linux 5.4 on


def _use(batch: np.ndarray) -> int:
    """Touch every page."""
    return int(batch[::512].sum())


def _growth(read: list[np.ndarray] | np.memmap, before: tuple[int, int]) -> tuple[int, int]:
    for i in range(BATCHES):
        _use(read[i])
    return memory()[0] - before[0], memory()[1] - before[1]


def take_back(read: list[np.ndarray] | np.memmap) -> None:
    """Ask the kernel to write pages out and free them: it can if a file or swap has them. Raises OSError."""
    libc, page = ctypes.CDLL(None, use_errno=True), resource.getpagesize()
    for batch in read:
        start = -(-batch.ctypes.data // page) * page
        size = (batch.ctypes.data + batch.nbytes - start) // page * page
        if libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), MADV_PAGEOUT):
            raise OSError(ctypes.get_errno(), "madvise(MADV_PAGEOUT)")


def memory() -> tuple[int, int]:
    """Resident bytes, and those of them that no file backs."""
    gc.collect()
    return status_bytes("VmRSS"), status_bytes("RssAnon")


def make(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 256, BATCH_BYTES, np.uint8)


def _written(rng: np.random.Generator, folder: Path) -> np.memmap:
    """The data set as a memory-mapped file, made batch by batch."""
    file = folder / "images"
    with file.open("wb") as out:
        for _ in range(BATCHES):
            make(rng).tofile(out)
        os.fsync(out.fileno())  # what is not written yet cannot be taken back
    return np.memmap(file, np.uint8, "r", shape=(BATCHES, BATCH_BYTES))


def _batches_read(batch: Callable[[int], np.ndarray]) -> int:
    """How many batches there are before memory runs out; all of them are kept."""
    kept = []
    for i in range(BATCHES):
        try:
            kept.append(batch(i))
            _use(kept[-1])
        except MemoryError:
            return i
    return BATCHES


def measure(folder: Path) -> dict[str, int]:
    rng = np.random.default_rng(0)
    start = memory()
    listed = [make(rng) for _ in range(BATCHES)]
    found = _read("listed", listed, start)
    del listed
    mapped = _written(rng, folder)
    found |= _read("mapped", mapped, memory())
    room = status_bytes("VmData") + BATCHES * BATCH_BYTES // 2
    resource.setrlimit(resource.RLIMIT_DATA, (room, room))
    counts = {"listed_batches": _batches_read(lambda i: make(rng)), "mapped_batches": _batches_read(lambda i: mapped[i])}
    return found | {"batches": BATCHES} | counts


def _read(name: str, batches: list[np.ndarray] | np.memmap, before: tuple[int, int]) -> dict[str, int]:
    """What reading added, and what the kernel left of it when it was asked to take it back."""
    resident, private = _growth(batches, before)
    take_back(batches)
    return {f"{name}_resident": resident, f"{name}_private": private, f"{name}_left": max(memory()[0] - before[0], 0)}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="framebench-") as scratch:
        print(json.dumps(measure(Path(scratch))))
