"""By how much reading a data set grows a process: `python -m framebench.worker.input_probe`. Linux; NumPy alone.

The same BYTES of images are read batch by batch, once from arrays in a list, once from a memory-mapped file. Resident memory
(VmRSS) contains the pages of a file that were touched, which the kernel may take back; private memory (RssAnon) does not.
"""

from __future__ import annotations

import gc
import json

import numpy as np

from framebench.adapters.loading import on_disk
from framebench.instruments.host import status_bytes

BATCHES, BATCH_BYTES = 64, 2**22  # 256 MiB


def use(batch: np.ndarray) -> int:
    """Touch every page."""
    return int(batch[::512].sum())


def growth(read: list[np.ndarray] | np.memmap, before: tuple[int, int]) -> tuple[int, int]:
    for i in range(BATCHES):
        use(read[i])
    return memory()[0] - before[0], memory()[1] - before[1]


def memory() -> tuple[int, int]:
    """Resident bytes, and those of them that no file backs."""
    gc.collect()
    return status_bytes("VmRSS"), status_bytes("RssAnon")


def measure() -> dict[str, int]:
    rng = np.random.default_rng(0)
    start = memory()
    listed = [rng.integers(0, 256, BATCH_BYTES, np.uint8) for _ in range(BATCHES)]
    in_a_list = growth(listed, start)
    mapped = on_disk(np.stack(listed))
    del listed
    mapping = growth(mapped, memory())
    return dict(zip(("listed_resident", "listed_private", "mapped_resident", "mapped_private"), (*in_a_list, *mapping)))


if __name__ == "__main__":
    print(json.dumps(measure()))
