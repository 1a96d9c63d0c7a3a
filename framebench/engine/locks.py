"""Locks between processes: whoever waits for one says what for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


@contextmanager
def hold_lock(file: Path, say: Callable[[str], None], work: str) -> Iterator[None]:
    """Hold a lock in this context; while another process holds it, say so once, and wait.

    A thread can hold it several times.

    Args:
        file: The file of the lock, made if it is not there.
        say: Called with a sentence if the lock is held.
        work: What the other process does, such as "builds torch 2.13.0".
    """
    lock = FileLock(file, is_singleton=True)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        say(f"waiting for another process, which {work} and holds {file}")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
