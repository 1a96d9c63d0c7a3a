"""Resources of the system that run out: threads, memory, processes, and room on disks.

The standard library alone: the check of threads comes before libraries that would not survive a
shortage.
"""

from __future__ import annotations

import errno
import os
import resource
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path

from framebench.instruments import limits

MOST_NEEDED_BYTES = 2**34  # of address space: OpenBLAS maps some for each core that it uses
BLAS_LIBRARIES = 2  # NumPy and SciPy have an OpenBLAS each
MOST_BLAS_THREADS = 64  # of one OpenBLAS, as those two build it
# OpenBLAS takes as many threads as the first of these that is a positive number says
BLAS_VARIABLES = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
OUT_OF_MEMORY = "memory ran out for framebench itself, perhaps by a limit (ulimit -v)"
OUT_OF_THREADS = "no further thread can be started, perhaps by a limit (ulimit -v, ulimit -u)"
OUT_OF_PROCESSES = "no further process can be started, perhaps by a limit (ulimit -u)"
ROOM_BYTES = 2**28  # far less than an environment takes, or a case that writes to a disk
# With so little room a process can write nothing at all. Some libraries then fail without naming
# the disk, and XLA leaves unfinished files behind.
NO_ROOM_BYTES = 2**20
LONGEST_LINE = 300  # characters of what a process printed


def has_small_address_space() -> bool:
    """Return whether a limit on address space may be too small for the libraries."""
    limit_bytes, _ = resource.getrlimit(resource.RLIMIT_AS)
    return limit_bytes != resource.RLIM_INFINITY and limit_bytes < MOST_NEEDED_BYTES


def check_threads(processes: int = 1) -> None:
    """Check that the threads of OpenBLAS could be started in so many processes at once.

    NumPy and SciPy load OpenBLAS. If it cannot start a thread, it sends its own process SIGINT,
    which nobody could tell from Ctrl-C. So threads are started here before, as many as all these
    processes will need, and ended at once. The system's limit counts the threads of all processes
    of a user together, so one process can stand for several.

    A small address space is not checked: glibc keeps the stacks of threads that have ended, and
    the libraries would lack that space. Raises RuntimeError as `threading` does.
    """
    if has_small_address_space():
        return
    # the main thread of a process is one of each OpenBLAS's threads
    started_by_blas = processes * BLAS_LIBRARIES * (count_blas_threads() - 1)
    # a further process has a main thread, and this process a thread that listens to it
    started_by_us = 2 * (processes - 1)
    try_threads(started_by_blas + started_by_us)


def count_blas_threads() -> int:
    """Return how many threads an OpenBLAS will have in a process, the main thread included."""
    most = min(len(os.sched_getaffinity(0)), MOST_BLAS_THREADS)
    for name in BLAS_VARIABLES:
        value = os.environ.get(name, "").strip()
        if value.isdecimal() and int(value) > 0:
            return min(int(value), most)
    return most


def try_threads(count: int) -> None:
    """Start so many threads that do nothing, and end them. Raises RuntimeError if one cannot be."""
    may_end = threading.Event()
    started = []
    try:
        for _ in range(count):
            thread = threading.Thread(target=may_end.wait, daemon=True)
            thread.start()
            started.append(thread)
    finally:
        may_end.set()
        for thread in started:
            thread.join()


def describe_shortage(error: Exception) -> str:
    """Return the resource that an error says ran out, or ""."""
    # of the dynamic linker, as the reason why a module could not be imported
    if isinstance(error, MemoryError) or "failed to map segment" in str(error):
        return OUT_OF_MEMORY
    # Python's words, and asv's for the thread of its forkserver
    if "can't start new thread" in str(error) or "Failed to start server" in str(error):
        return OUT_OF_THREADS
    return ""


def describe_error(error: OSError) -> str:
    """Return the error in words, with the file if it names one."""
    if isinstance(error, BlockingIOError) and error.filename is None:  # EAGAIN of fork
        return OUT_OF_PROCESSES
    message = error.strerror or str(error)
    return f"{message}: {error.filename}" if error.filename else message


def check_disks(printed: str, folders: Iterable[Path] = ()) -> None:
    """Raise OSError if a process has failed because a disk is full, whatever it was at work on.

    That a disk is full is seen when the process has ended. A disk that only the process itself had
    filled, such as a case that keeps activations there, has room again: that is the case's fault.

    Args:
        printed: The reason and the last lines of the process that failed.
        folders: Where it may have written, besides the folders for temporary files.
    """
    complaints = [line.strip() for line in printed.splitlines() if limits.FULL_DISK.search(line)]
    full = list_full_disks(folders, ROOM_BYTES if complaints else NO_ROOM_BYTES)
    if any("quota" in complaint for complaint in complaints):
        # the file system has room, of which this user may take no more
        full = ["the user's quota is used up"]
    if not full:
        return
    reason = (
        f"a process failed for want of room on a disk: {' and '.join(full)}; make room there, or "
        "let TMPDIR name another folder for temporary files"
    )
    if complaints:
        reason += f". The process said: {complaints[0][:LONGEST_LINE]}"
    raise OSError(errno.ENOSPC, reason)


def list_full_disks(folders: Iterable[Path], least_bytes: int = ROOM_BYTES) -> list[str]:
    """Return which of these folders, and of those for temporary files, have less room than that.

    Each is a text such as `only 3 MiB are free in /tmp`.
    """
    places = [*folders, Path(tempfile.gettempdir())]
    # where the folder that the user names is full, Python takes another one; other programs do not
    if os.environ.get("TMPDIR"):
        places.append(Path(os.environ["TMPDIR"]))
    full = []
    for folder in dict.fromkeys(places):
        if not folder.is_dir():
            continue
        system = os.statvfs(folder)
        # a file system that is only read, such as a container's image, needs no room, and some
        # file systems do not tell how much they have
        if system.f_flag & os.ST_RDONLY or not system.f_blocks:
            continue
        free_bytes = system.f_bavail * system.f_frsize
        if free_bytes < least_bytes:
            full.append(f"only {free_bytes / 2**20:,.0f} MiB are free in {folder}")
    return full
