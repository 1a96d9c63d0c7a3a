"""Apply the settings of the whole process that a case's strategies ask for."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import torch

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
    """Apply all settings, since an earlier case of this process may have had others."""
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
