"""Enforce a budget of memory on the host, by the kernel.

A budget means bytes of a case's tensors and workspaces. The interpreter, the libraries and the
compilers have taken their memory before the limit is set. So the process may map what it has
mapped, less the tensors alive, plus the budget. Standard library only.
"""

from __future__ import annotations

import ctypes
import gc
import re
import resource

from framebench.instruments import nvml
from framebench.instruments.host import read_status

# words of the C++ library, the kernel, CUDA and its libraries, PyTorch, XLA and Jittor; examples
# are in tests/adapters/recorded.toml
OUT_OF_MEMORY = re.compile(
    r"out.of.memory|can't allocate memory|bad_alloc|MemoryError|MemoryAllocation"
    r"|RESOURCE_EXHAUSTED|STATUS_ALLOC_FAILED|memory is overflow|unable to alloc",
    re.I,
)
# words of XLA where a kernel asks for too much of the memory on the chip: the shared memory of a
# GPU, or a space of a TPU's memory such as vmem, where hbm is the main memory
ON_CHIP = re.compile(
    r"RESOURCE_EXHAUSTED: .*Shared memory size limit"
    r"|RESOURCE_EXHAUSTED: (?:(?!space[ =]).)*space[ =](?!hbm)\w"
)
# words of oneDNN, and of XLA's YNNPACK
REFUSED = re.compile(r"could not create|could not execute|== dnnl_|YNNPACK operation failed", re.I)
# words of the system and of Python for a full disk, or for a user's share of it
FULL_DISK = re.compile(r"No space left on device|Disk quota exceeded|No usable temporary directory")


def measure_mapped() -> int:
    """Return the private writable bytes that this process has mapped, as RLIMIT_DATA counts them.

    Freed memory that malloc keeps is returned to the system first.
    """
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return read_status("VmData")


def limit_growth(more: int | None) -> None:
    """Let this process map `more` bytes beyond its present ones; None removes the limit.

    With a negative number it may map less than it has. Only the soft limit moves, since a hard one
    could not be raised again. Linux counts brk and private writable mappings.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    soft = hard
    if more is not None:
        soft = max(0, measure_mapped() + more)
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def is_enforced() -> bool:
    """Return whether Linux limits the memory of this process, by a limit of ours or by `ulimit`."""
    for kind in (resource.RLIMIT_DATA, resource.RLIMIT_AS):
        soft, _ = resource.getrlimit(kind)
        if soft != resource.RLIM_INFINITY:
            return True
    return False


def is_out_of_memory(error: BaseException, limited: bool) -> bool:
    """Return whether an exception means that memory ran out.

    `limited` says whether Linux enforced a limit when it was raised.
    """
    if isinstance(error, MemoryError):
        return True
    message = str(error)
    if is_about_memory(message):
        return True
    # Kernel libraries report the same error for too little memory and for unsupported shapes. Under
    # a limit, memory is the likelier reason.
    return limited and REFUSED.search(message) is not None


def is_about_memory(message: str) -> bool:
    """Return whether a line of an error or a log says that memory ran out, by any device's words.

    XLA has the same words for a kernel that asks for too much memory on the chip. That is an error
    of another kind, and need not pass with a smaller batch.
    """
    lines = message.splitlines()
    return any(OUT_OF_MEMORY.search(line) and not ON_CHIP.search(line) for line in lines)


def read_gpu_memory() -> int | None:
    """Return the total memory in bytes of the GPU that this process uses, or None without a GPU."""
    memory = nvml.read_memory()
    return memory.total if memory else None
