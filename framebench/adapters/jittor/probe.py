"""Count the bytes of Jittor's pool.

Jittor has no Python interface to its own count of the pool. Its count of variables has the size of
a view, although the view keeps a whole block alive. So an allocator of framebench, in C++, is laid
over the pool. It is compiled against Jittor's headers once per installation, into Jittor's cache.

It counts the bytes that were requested. The blocks of the pool are larger, by up to 1 MiB each and
differently after every step. Neither includes what oneDNN allocates for itself (reordered weights
and activations, workspaces): only host.rss sees that.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import ModuleType

import jittor as jt
import jittor_utils
from jittor import compiler


@cache
def load_probe() -> ModuleType:
    """Return the compiled module, whose functions read the watched pool.

    `used_bytes()` returns the bytes in use, `peak_bytes()` the most since `reset_peak()`.
    """
    source = Path(__file__).with_suffix(".cc").read_text()
    return jittor_utils.compile_module(source, compiler.cc_flags)


def watch_pool() -> None:
    """Watch the pool from now on.

    Memory that was allocated before is not counted, nor is its release.
    """
    load_probe().watch()
    jt.flags.use_stat_allocator = 2


def read_storages() -> dict[int, dict[int, int]]:
    """Return the storage of each variable that Python holds, by the variable's id: bytes by block.

    Of variables that share memory one is listed. Blocks of the watched pool are 1, 2 and so on.
    Memory from another allocator has no block: minus the variable's id stands for it, so that keys
    stay unique.
    """
    numbers = load_probe().held()  # block (-1 without one), bytes and id of each variable in turn
    storages = {}
    for block, size, variable in zip(numbers[0::3], numbers[1::3], numbers[2::3]):
        storages[variable] = {block + 1 if block >= 0 else -variable: size}
    return storages
