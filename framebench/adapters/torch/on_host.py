"""Keep on the host what a user's file puts on a GPU where steps cannot run on one.

Scripts move their model and batches to the GPU by themselves, and framebench moves both before the
first step. So `model()` and `batch(n)` may name the GPU also where there is none.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch._guards import detect_fake_mode
from torch.overrides import TorchFunctionMode

HOST = torch.device("cpu")


def keep_on_host() -> AbstractContextManager[object]:
    """Return a context in which "cuda" is the host, unless steps run on a GPU that is here."""
    is_simulated = detect_fake_mode(None) is not None
    runs_on_gpu = torch.cuda.is_available() and not is_simulated
    return nullcontext() if runs_on_gpu else HostInPlaceOfGpu()


class HostInPlaceOfGpu(TorchFunctionMode):
    """Context in which functions make on the host what they are asked to make on a GPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of PyTorch with the host in the place of each GPU."""
        kwargs = kwargs or {}
        if func is Tensor.cuda:
            return args[0]
        if func is torch.device:
            return func(*args, **kwargs)  # a file may keep it for its forward pass
        args = tuple(map(replace_gpu, args))
        kwargs = {name: replace_gpu(value) for name, value in kwargs.items()}
        return func(*args, **kwargs)


def replace_gpu(value: Any) -> Any:
    """Return the host for a GPU or its name, such as `cuda:0`, and else the value."""
    if isinstance(value, str | torch.device) and str(value).partition(":")[0] == "cuda":
        return HOST
    return value
