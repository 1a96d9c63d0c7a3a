"""Jittor's memory in numbers.

Jittor has no Python interface to its count of the pool, and in its count of variables a view has
its own size where it keeps a whole block alive. So an allocator of ours, in C++, is laid over the
pool; it is compiled against Jittor's headers once per installation, and the result stays in
Jittor's own cache.

Counted are the bytes that were requested. The blocks of the pool are larger, by up to 1 MiB each
and differently after every step. What oneDNN allocates for itself (reordered weights and
activations, workspaces) is in neither: only host.rss sees that.
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

    `used_bytes()` are given out now, and `peak_bytes()` are the most of them since `reset_peak()`.
    """
    source = Path(__file__).with_suffix(".cc").read_text()
    return jittor_utils.compile_module(source, compiler.cc_flags)


def watch_pool() -> None:
    """Watch the pool from now on.

    Memory that was allocated before is not counted, nor is its release.
    """
    load_probe().watch()
    jt.flags.use_stat_allocator = 2
