"""Weights of 4 bits by bitsandbytes on fake tensors.

The package's parameters are a class of tensors that cannot be fake. Plain parameters with the same
attributes take their place. Like the package's own they have wide numbers until they move to a GPU,
where they are packed. It was tried with bitsandbytes 0.50.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from framebench.adapters.replacing import replace_attributes

MODULES = "bitsandbytes.nn.modules"
# attributes of `Params4bit` that others read, with their defaults
ATTRIBUTES = {
    "quant_state": None,
    "blocksize": 64,
    "compress_statistics": True,
    "quant_type": "fp4",
    "quant_storage": torch.uint8,
    "module": None,
    "bnb_quantized": False,
}


class Parameter4Bit:
    """Take the place of `bitsandbytes.nn.Params4bit`, and return a plain parameter."""

    def __new__(
        cls, data: Tensor | None = None, requires_grad: bool = False, **attributes: Any
    ) -> Any:
        """Return the parameter, with the attributes of a `Params4bit`."""
        parameter = nn.Parameter(torch.empty(0) if data is None else data, requires_grad)
        for name, default in ATTRIBUTES.items():
            value = attributes.get(name)
            setattr(parameter, name, default if value is None else value)
        return parameter


class Parameter8Bit:
    """Take the place of `bitsandbytes.nn.Int8Params`, which cannot be fake."""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        """Raise NotImplementedError: what layers of 8 bits need on a GPU is not predicted."""
        raise NotImplementedError(
            "bitsandbytes' layers of 8 bits, such as Linear8bitLt, are not predicted; its "
            "Linear4bit is, and so is torch.nn.Linear"
        )


@contextmanager
def plain_4bit_weights() -> Iterator[None]:
    """Let programs make weights of 4 bits in this context, if they have imported bitsandbytes."""
    modules = sys.modules.get(MODULES)
    if modules is None:
        yield
        return
    with replace_attributes(modules, Params4bit=Parameter4Bit, Int8Params=Parameter8Bit):
        yield


def read_4bit_type(parameter: nn.Parameter) -> str:
    """Return the type of a weight of 4 bits, such as `nf4`, or "" for any other weight."""
    return getattr(parameter, "quant_type", "")
