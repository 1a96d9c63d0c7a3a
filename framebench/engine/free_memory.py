"""Make a virtual machine's host provide its free memory before steps are timed.

The host of a virtual machine may provide a page only when it is written to, and may take back what
lies free. The next write then takes several times as long. A framework that returns its memory to
the kernel after each step, as JAX does on a CPU, pays for it in its timed steps, so that the
strategies that need most memory look slow. `studies/noise` shows by how much.
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
