"""Choose the processor cores of this process and of its threads. Standard library only.

On Linux the set of cores belongs to a thread, and a new thread inherits that of its starter.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

# the cores of this process before it was pinned: all, or fewer by a user's taskset or a cgroup
_allowed: set[int] = set()
_unpinned_threads: set[int] = set()  # native ids of the threads that may use all of these


def pin(core: int) -> None:
    """Pin this process to a core: all its threads except those that called `use_all_cores`.

    The first call remembers which cores the process had before, for `use_all_cores`.
    """
    if not _allowed:
        _allowed.update(os.sched_getaffinity(0))
    for thread in Path("/proc/self/task").iterdir():
        if int(thread.name) not in _unpinned_threads:
            with contextlib.suppress(OSError):  # it has ended
                os.sched_setaffinity(int(thread.name), {core})


def use_all_cores() -> None:
    """Let the calling thread use every core that this process had before it was pinned."""
    _unpinned_threads.add(threading.get_native_id())
    if _allowed:
        os.sched_setaffinity(0, _allowed)
