"""Move tensors to the device and back, and read the states of random generators."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass


def read_generators() -> list[Any]:
    """Return the states of all generators that a step may draw random numbers from."""
    on_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    numpy_state = np.random.get_state(legacy=False)["state"]
    torch_states = [state.tolist() for state in (torch.get_rng_state(), *on_gpus)]
    return [random.getstate(), str(numpy_state), *torch_states]


def convert_model(model: nn.Module, device: torch.device, dtype: torch.dtype) -> nn.Module:
    """Move a model to the device, with its real numbers in this type.

    `Module.to` would make complex numbers real as well.
    """
    tensors = [*model.parameters(), *model.buffers()]
    if not any(tensor.is_complex() for tensor in tensors):
        return model.to(device, dtype)
    for tensor in tensors:
        is_real = tensor.is_floating_point()
        tensor.data = tensor.data.to(device, dtype if is_real else tensor.dtype)
    return model


def to_numpy(tensor: Tensor) -> np.ndarray:
    """Return a tensor's numbers in NumPy: the whole of it, where ranks have parts.

    bfloat16 becomes float32, since NumPy has no bfloat16.
    """
    if hasattr(tensor, "full_tensor"):
        tensor = tensor.full_tensor()
    if is_traceable_wrapper_subclass(tensor):
        tensor = tensor.dequantize()
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.float()
    return tensor.detach().cpu().numpy()
