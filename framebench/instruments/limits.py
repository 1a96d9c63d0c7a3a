"""A budget of memory: what a probe worker is ordered to do within it, and how the kernel enforces it on the host.

A budget means bytes of a case's tensors and workspaces. The interpreter, the libraries and the compilers took theirs before the
limit is set, so the process may map what it has mapped, less the tensors alive, plus the budget. Standard library only.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import signal
from dataclasses import asdict, dataclass
from typing import Literal

from framebench.instruments import nvml
from framebench.instruments.host import status_bytes
from framebench.suite.case import Case

UNDER = "under the limit"  # ends the name of a phase in which the limit is enforced
# as the C++ library, the kernel, CUDA and its libraries, PyTorch, XLA and Jittor say it; examples: tests/adapters/recorded.py
OUT_OF_MEMORY = re.compile(
    r"out.of.memory|can't allocate memory|bad_alloc|MemoryError|MemoryAllocation|RESOURCE_EXHAUSTED|STATUS_ALLOC_FAILED"
    r"|memory is overflow|unable to alloc",
    re.I,
)
REFUSED = re.compile(
    r"could not create|could not execute|== dnnl_|YNNPACK operation failed", re.I
)  # by oneDNN, by XLA's YNNPACK


@dataclass(frozen=True)
class Order:
    """What a probe worker is to do. Without a budget it does the same without a limit."""

    do: Literal["fit", "evaluate"]
    case: str  # an id whose batch may be any
    budget: int | None  # bytes
    samples: int = 0  # evaluate: of so many, which are the same whatever the batch
    first: int = 0  # evaluate: the first that is not yet done

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def mapped() -> int:
    """Private writable bytes this process has mapped, as RLIMIT_DATA counts them; what malloc holds back is returned first."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return status_bytes("VmData")


def limit_growth(room: int | None) -> None:
    """Let this process map `room` bytes (it may be negative) beyond what it has, or, for None, whatever there is.

    Only the soft limit moves, as a hard one could not be raised again. Linux counts brk and private writable mappings.
    """
    import resource

    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    wanted = hard if room is None else max(0, mapped() + room)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def enforced() -> bool:
    """Whether Linux refuses this process memory that the machine may have: by a limit of ours, or by `ulimit`."""
    import resource

    return any(resource.getrlimit(kind)[0] != resource.RLIM_INFINITY for kind in (resource.RLIMIT_DATA, resource.RLIMIT_AS))


def ran_out(error: BaseException, limited: bool) -> bool:
    """Whether an exception means that memory ran out; `limited`: when it was raised, Linux enforced a limit.

    Libraries of kernels only say that something failed, be it for want of memory or of a kernel for such shapes: only under a
    limit is memory the likelier reason.
    """
    message = str(error)
    refused = limited and REFUSED.search(message)
    return isinstance(error, MemoryError) or bool(refused or OUT_OF_MEMORY.search(message))


def die_plainly() -> None:
    """Without a framework's own handlers, one of which hangs when malloc fails beneath it, and without core files."""
    import resource

    for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS):
        signal.signal(number, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def set_before_import(case: Case, budget: int | None) -> None:
    """What must be in the environment before the framework is imported: JAX takes its limit on a GPU as a share of the card."""
    total = card_bytes()
    if case.framework == "jax" and budget is not None and total is not None:
        os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{budget / total:.6f}"


def card_bytes() -> int | None:
    """Memory of the GPU that the process gets, or None where there is none, or nothing that could be asked."""
    handle = nvml.card() if nvml.gpus() else None
    if handle is None:
        return None
    import pynvml

    memory = nvml.asked(pynvml.nvmlDeviceGetMemoryInfo, handle)
    return None if memory is None else int(memory.total)
