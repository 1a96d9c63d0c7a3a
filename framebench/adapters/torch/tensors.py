"""Tensors on their way to the device and back, and what random ones are drawn from."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass


def generators() -> list[Any]:
    """The states of what random numbers are drawn from."""
    cards = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    numpys = np.random.get_state(legacy=False)["state"]
    return [random.getstate(), str(numpys), *(state.tolist() for state in (torch.get_rng_state(), *cards))]


def converted(model: nn.Module, where: torch.device, dtype: torch.dtype) -> nn.Module:
    """On the device, its real numbers of this type. PyTorch's own `to` would make complex numbers real as well."""
    if not any(t.is_complex() for t in (*model.parameters(), *model.buffers())):
        return model.to(where, dtype)
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = tensor.data.to(where, dtype if tensor.is_floating_point() else tensor.dtype)
    return model


def on_host(tensor: Tensor) -> np.ndarray:
    """The whole of it, where ranks have parts. NumPy has no bfloat16."""
    if hasattr(tensor, "full_tensor"):
        tensor = tensor.full_tensor()
    if is_traceable_wrapper_subclass(tensor):
        tensor = tensor.dequantize()
    return tensor.detach().to("cpu", torch.float32 if tensor.dtype == torch.bfloat16 else None).numpy()
