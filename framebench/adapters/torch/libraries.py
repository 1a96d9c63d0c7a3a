"""Read how much memory a library of kernels keeps for itself."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import torch

# `mkl_mem_stat` of MKL's manual, by the name that a statically linked MKL exports it under
MEM_STAT = "mkl_serv_mem_stat"


def read_mkl_bytes() -> int:
    """Return the bytes of the buffers that MKL keeps for its next matmuls.

    It is 0 where PyTorch has no MKL.
    """
    if not torch.backends.mkl.is_available():
        return 0
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        mem_stat: Any = getattr(ctypes.CDLL(str(library)), MEM_STAT)
    except (OSError, AttributeError):
        return 0
    mem_stat.restype = ctypes.c_int64
    buffer_count = ctypes.c_int()
    return int(mem_stat(ctypes.byref(buffer_count)))
