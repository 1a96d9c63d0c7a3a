"""Resources of the system that run out: what is said of them, and a check for threads.

The standard library alone: the check comes before libraries that would not survive a shortage.
"""

from __future__ import annotations

import os
import resource
import threading

MOST_NEEDED_BYTES = 2**34  # of address space: OpenBLAS maps some for each core that it uses
BLAS_LIBRARIES = 2  # NumPy and SciPy have an OpenBLAS each
MOST_BLAS_THREADS = 64  # of one OpenBLAS, as those two build it
OUT_OF_MEMORY = "memory ran out for framebench itself, perhaps by a limit (ulimit -v)"
OUT_OF_THREADS = "no further thread can be started, perhaps by a limit (ulimit -v, ulimit -u)"
OUT_OF_PROCESSES = "no further process can be started, perhaps by a limit (ulimit -u)"


def has_small_address_space() -> bool:
    """Return whether a limit on address space may be too small for the libraries."""
    limit_bytes, _ = resource.getrlimit(resource.RLIMIT_AS)
    return limit_bytes != resource.RLIM_INFINITY and limit_bytes < MOST_NEEDED_BYTES


def check_threads(processes: int = 1) -> None:
    """Check that OpenBLAS, which NumPy and SciPy load, could start its threads in these processes.

    If it cannot, it sends its own process SIGINT, which nobody could tell from Ctrl-C. So that many
    threads are started first, and ended; to the limit on them a thread and a process are the same.
    Not in a small address space: glibc keeps the threads' stacks and arenas, which the libraries
    would lack. Raises RuntimeError as `threading` does.
    """
    if has_small_address_space():
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    per_library = min(cores or 1, MOST_BLAS_THREADS) - 1
    # of each further process its main thread, and the one that listens to it
    count = processes * BLAS_LIBRARIES * per_library + 2 * (processes - 1)
    ended = threading.Event()
    started = []
    try:
        for _ in range(count):
            thread = threading.Thread(target=ended.wait, daemon=True)
            thread.start()
            started.append(thread)
    finally:
        ended.set()
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
