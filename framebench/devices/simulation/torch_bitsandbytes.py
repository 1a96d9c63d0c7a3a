"""bitsandbytes on the simulated device: weights of 4 bits and paged states.

Its operators work on fake tensors (`bitsandbytes/_ops.py`), but its parameters do not
(`adapters/torch/fake_bitsandbytes.py`), and its paged states are memory of the driver. It was tried
with bitsandbytes 0.50.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from framebench.adapters.torch.fake_bitsandbytes import (
    ATTRIBUTES,
    MODULES,
    Parameter4Bit,
    Parameter8Bit,
)
from framebench.devices.simulation.torch_device import (
    Replacement,
    do_nothing,
    is_on_gpu,
    replace_attributes,
)

FUNCTIONS = "bitsandbytes.functional"


@contextmanager
def follow_bitsandbytes() -> Iterator[None]:
    """Let programs use bitsandbytes in this context, if they have imported it before."""
    modules, functions = sys.modules.get(MODULES), sys.modules.get(FUNCTIONS)
    if modules is None or functions is None:
        yield
        return
    replacements: list[Replacement] = [
        (modules, "Params4bit", MovedParameter4Bit),
        (modules, "Int8Params", Parameter8Bit),
        # the package caches tables in it, which are fake tensors in this context
        (functions, "name2qmap", {}),
        (functions, "get_paged", get_paged),
        # both work on paged states
        (functions, "fill", do_nothing),
        (functions, "prefetch_tensor", do_nothing),
    ]
    with replace_attributes(replacements):
        yield


class MovedParameter4Bit(Parameter4Bit):
    """Take the place of `Params4bit`: a parameter that is quantized when it moves to the device."""

    def __new__(
        cls, data: Tensor | None = None, requires_grad: bool = False, **attributes: Any
    ) -> Any:
        """Return the parameter."""
        parameter = Parameter4Bit(data, requires_grad, **attributes)
        parameter.become_on_device = partial(quantize_moved, parameter)
        return parameter


def quantize_moved(before: Any, moved: Tensor) -> Any:
    """Return a weight that has moved, quantized if it is on the device (`Params4bit._quantize`)."""
    values = {name: getattr(before, name) for name in ATTRIBUTES}
    if not is_on_gpu(moved):
        return MovedParameter4Bit(moved, before.requires_grad, **values)
    if before.bnb_quantized:
        before.quant_state.to(moved.device)
        return MovedParameter4Bit(moved, before.requires_grad, **values)
    packed, state = sys.modules[FUNCTIONS].quantize_4bit(
        moved.contiguous(),
        blocksize=before.blocksize,
        compress_statistics=before.compress_statistics,
        quant_type=before.quant_type,
        quant_storage=before.quant_storage,
    )
    if before.module is not None:
        before.module.quant_state = state
    values |= {"quant_state": state, "bnb_quantized": True}
    return MovedParameter4Bit(packed, before.requires_grad, **values)


def list_cached_tables() -> list[Tensor]:
    """Return the tables of numbers that bitsandbytes keeps for its next quantization."""
    functions = sys.modules.get(FUNCTIONS)
    return list(functions.name2qmap.values()) if functions else []


def get_paged(*shape: int, dtype: torch.dtype = torch.float32, device: Any = None) -> Any:
    """Return a state that the driver pages, which lies outside of PyTorch's allocator.

    Here it is a tensor on the host.
    """
    state: Any = torch.empty(*shape, dtype=dtype)
    state.is_paged = True
    state.page_deviceid = 0
    return state
