"""Apply settings of the process, read the allocator's counters and clocks, and convert tensors."""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from framebench.adapters.torch.parts import Process

TF32_AT_IMPORT = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
# The operator that each kernel of attention runs under; none for the one made of matmuls.
FUSED = {
    "MATH": "",
    "EFFICIENT_ATTENTION": "_scaled_dot_product_efficient_attention",
    "FLASH_ATTENTION": "_scaled_dot_product_flash_attention",
    "CUDNN_ATTENTION": "_scaled_dot_product_cudnn_attention",
}


def apply_settings(process: Process) -> None:
    """Write a case's settings into PyTorch's global state.

    All are written, defaults too, since an earlier case of this process may have had others.
    """
    torch.set_float32_matmul_precision("highest")
    for_matmuls, for_cudnn = process.tf32
    torch.backends.cuda.matmul.allow_tf32 = for_matmuls
    torch.backends.cudnn.allow_tf32 = for_cudnn
    torch.backends.cudnn.benchmark = process.tries_algorithms
    # the compiler is imported only where it is used, since it takes memory
    if "torch._functorch.config" in sys.modules or process.activation_budget < 1:
        compiler: Any = importlib.import_module("torch._functorch.config")
        compiler.activation_memory_budget = process.activation_budget
    cuda = torch.backends.cuda
    cuda.enable_math_sdp("MATH" in process.attention)
    cuda.enable_mem_efficient_sdp("EFFICIENT_ATTENTION" in process.attention)
    cuda.enable_flash_sdp("FLASH_ATTENTION" in process.attention)
    cuda.enable_cudnn_sdp("CUDNN_ATTENTION" in process.attention)


# our names, and those of torch.cuda.memory_stats()
PEAKS = {
    "allocator.in_use": "allocated_bytes.all.peak",
    # adds blocks that were freed, but that a stream may still use
    "allocator.active": "active_bytes.all.peak",
    "allocator.reserved": "reserved_bytes.all.peak",
}
COUNTERS = {
    # requested bytes, before they are rounded up to blocks
    "requested_bytes": "requested_bytes.all.peak",
    # free, but between blocks in use: fragmentation
    "inactive_split_bytes": "inactive_split_bytes.all.peak",
    "allocations": "allocation.all.allocated",
    "segments": "segment.all.peak",
    # cudaMalloc failed, the cache was flushed, and it was called again
    "alloc_retries": "num_alloc_retries",
    "ooms": "num_ooms",
}


def read_statistics(keys: Mapping[str, str], device: torch.device) -> dict[str, int]:
    """Return the statistics of the caching allocator, under the names of `keys`.

    There are none on a CPU, and none if the caching allocator is switched off.
    """
    if device.type != "cuda":
        return {}
    stats = torch.cuda.memory_stats()
    if not stats.get("allocation.all.allocated"):
        return {}
    return {name: stats[key] for name, key in keys.items() if key in stats}


class CudaStopwatch:
    """Two events on the current stream."""

    def __init__(self) -> None:
        """Make the events, which record nothing yet."""
        self.first = torch.cuda.Event(enable_timing=True)
        self.last = torch.cuda.Event(enable_timing=True)

    def start(self) -> None:
        self.first.record()

    def stop(self) -> None:
        self.last.record()

    def seconds(self) -> float:
        return self.first.elapsed_time(self.last) / 1e3


def read_generators() -> list[Any]:
    """Return the states of all generators that a step may draw random numbers from."""
    on_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    numpy_state = np.random.get_state(legacy=False)["state"]
    torch_states = [state.tolist() for state in (torch.get_rng_state(), *on_gpus)]
    return [random.getstate(), str(numpy_state), *torch_states]


def convert_model(model: nn.Module, device: torch.device, dtype: torch.dtype) -> nn.Module:
    """Move a model to the device, with its real numbers in this type.

    `Module.to` with a type would make complex numbers real as well. They have no lower precision,
    and are as wide as the real ones in float64.
    """
    model.to(device)
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.is_floating_point():
            tensor.data = tensor.data.to(dtype)
        elif tensor.is_complex() and dtype == torch.float64:
            tensor.data = tensor.data.to(torch.complex128)
    return model


def to_numpy(tensor: Tensor) -> np.ndarray:
    """Return a tensor's numbers in NumPy, put together if ranks have parts of it.

    bfloat16 becomes float32, since NumPy has no bfloat16. A lazy conjugation is carried out.
    """
    if hasattr(tensor, "full_tensor"):
        tensor = tensor.full_tensor()
    if is_traceable_wrapper_subclass(tensor):
        tensor = tensor.dequantize()
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.float()
    return tensor.numpy(force=True)
