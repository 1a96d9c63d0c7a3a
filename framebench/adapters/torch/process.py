"""The settings of the whole process, as a case's strategies ask for them."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import torch

from framebench.adapters.torch.parts import Process

TF32_AT_IMPORT = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
FUSED = {  # the operator that each kernel runs under; none for the one that is put together from products
    "MATH": "",
    "EFFICIENT_ATTENTION": "_scaled_dot_product_efficient_attention",
    "FLASH_ATTENTION": "_scaled_dot_product_flash_attention",
    "CUDNN_ATTENTION": "_scaled_dot_product_cudnn_attention",
}


def set_up(process: Process) -> None:
    """An earlier case of this process may have had other settings."""
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = process.tf32
    torch.backends.cudnn.benchmark = process.tries_algorithms
    if "torch._functorch.config" in sys.modules or process.activation_budget < 1:
        compiler: Any = importlib.import_module("torch._functorch.config")
        compiler.activation_memory_budget = process.activation_budget
    choices = torch.backends.cuda
    switches = (choices.enable_math_sdp, choices.enable_mem_efficient_sdp, choices.enable_flash_sdp, choices.enable_cudnn_sdp)
    for name, enable in zip(FUSED, switches):
        enable(name in process.attention)
