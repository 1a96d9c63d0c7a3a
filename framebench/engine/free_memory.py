"""Make a virtual machine's host provide its free memory before steps are timed.

The host of a virtual machine often provides a page only when it is written to, and takes back what
lies free for some seconds. The next write then takes longer: on two cores of an AMD EPYC 2.5 s of
processor time for 1 GiB in pages of 4 KiB, and 0.85 s when it was repeated. A framework that
returns its memory to the kernel after each step, as JAX does on a CPU, pays for it in its timed
steps. The strategies that need most memory then look slow: JAX's Transformer under `fp32` at batch
16 took 5.8 s in the first block, and 4.5 s in the next one.
"""

from __future__ import annotations

import mmap

from framebench.engine.capacity import read_free_memory

# Of the free memory, what is written at most: other programs must not run out of it.
FREE_SHARE = 0.5


def touch(n_bytes: int) -> int:
    """Write to so many bytes of free memory and free them again, and return how many they were.

    They are at most `FREE_SHARE` of what is free. The kernel gives away first what was freed last:
    the next process gets these pages.
    """
    n_bytes = min(n_bytes, int(FREE_SHARE * read_free_memory()))
    if n_bytes < mmap.PAGESIZE:
        return 0
    with mmap.mmap(-1, n_bytes) as memory:
        for start in range(0, n_bytes, mmap.PAGESIZE):
            memory[start] = 1
    return n_bytes
