"""By how much reading a data set grows a process: `python -m framebench.claims.probes.inputs`.

Linux; NumPy alone.

The same BYTES of images are read batch by batch, once from arrays in a list, once from a
memory-mapped file. Resident memory (VmRSS) contains the pages of a file that were touched, which
the kernel may take back; private memory (RssAnon) does not. So the kernel is asked to take back
what it can of either (MADV_PAGEOUT), as it does where memory is short. Then the process may have
half of the data's bytes for itself (RLIMIT_DATA): how many batches can be read either way?
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

from framebench.instruments.host import read_status

BATCHES, BATCH_BYTES = 64, 2**22  # 256 MiB
MADV_PAGEOUT = 21  # of linux/mman.h, from Linux 5.4 on
Batches = list[np.ndarray] | np.memmap


def touch(batch: np.ndarray) -> int:
    """Read a byte of every page."""
    return int(batch[::512].sum())


def read_memory() -> tuple[int, int]:
    """Return resident bytes, and those of them that no file backs."""
    gc.collect()
    return read_status("VmRSS"), read_status("RssAnon")


def take_back(batches: Batches) -> None:
    """Ask the kernel to write pages out and free them: it can if a file or swap has them.

    Raises OSError.
    """
    libc, page = ctypes.CDLL(None, use_errno=True), resource.getpagesize()
    for batch in batches:
        start = -(-batch.ctypes.data // page) * page
        size = (batch.ctypes.data + batch.nbytes - start) // page * page
        if libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), MADV_PAGEOUT):
            raise OSError(ctypes.get_errno(), "madvise(MADV_PAGEOUT)")


def make_batch(rng: np.random.Generator) -> np.ndarray:
    """Return random images."""
    return rng.integers(0, 256, BATCH_BYTES, np.uint8)


def write_batches(rng: np.random.Generator, file: Path) -> np.memmap:
    """Return the data set as a memory-mapped file, made batch by batch."""
    with file.open("wb") as out:
        for _ in range(BATCHES):
            make_batch(rng).tofile(out)
        os.fsync(out.fileno())  # what is not written yet cannot be taken back
    return np.memmap(file, np.uint8, "r", shape=(BATCHES, BATCH_BYTES))


def read_batches(name: str, batches: Batches, before: tuple[int, int]) -> dict[str, int]:
    """Return what reading added, and what the kernel left of it."""
    for i in range(BATCHES):
        touch(batches[i])
    resident, private = read_memory()
    take_back(batches)
    left = read_memory()[0]
    return {
        f"{name}_resident": resident - before[0],
        f"{name}_private": private - before[1],
        f"{name}_left": max(left - before[0], 0),
    }


def count_batches(get_batch: Callable[[int], np.ndarray]) -> int:
    """Return how many batches can be held at once before memory runs out."""
    held = []
    for i in range(BATCHES):
        try:
            held.append(get_batch(i))
            touch(held[-1])
        except MemoryError:
            return i
    return BATCHES


def measure(folder: Path) -> dict[str, int]:
    """Return the numbers of a data set as a list of arrays and as a memory-mapped file."""
    rng = np.random.default_rng(0)
    before = read_memory()
    listed = [make_batch(rng) for _ in range(BATCHES)]
    numbers = read_batches("listed", listed, before)
    del listed
    mapped = write_batches(rng, folder / "images")
    numbers |= read_batches("mapped", mapped, read_memory())
    limit = read_status("VmData") + BATCHES * BATCH_BYTES // 2
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    numbers["batches"] = BATCHES
    numbers["listed_batches"] = count_batches(lambda i: make_batch(rng))
    numbers["mapped_batches"] = count_batches(lambda i: mapped[i])
    return numbers


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="framebench-") as scratch:
        print(json.dumps(measure(Path(scratch))))
