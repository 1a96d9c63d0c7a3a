"""Convert modules of fake tensors to another device, type or memory format.

A real parameter stays the same object when it is converted. A fake one cannot change in place, and
PyTorch refuses (`_apply(): Couldn't swap`).
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from framebench.adapters.replacing import replace_attributes

# The replacement of each tensor: one dict while the outermost `_apply` runs, and otherwise none.
REPLACED_TENSORS: list[dict[Tensor, Tensor]] = []


def convert_module(
    module: nn.Module, function: Callable[[Tensor], Tensor], recurse: bool = True
) -> nn.Module:
    """Replace nn.Module._apply for tensors that cannot change device or type in place.

    Parameters and buffers are replaced in the order of the original, children first. Tensors that
    modules share stay shared, since REPLACED_TENSORS keeps the replacements. When the outermost
    call ends, optimizers are given the new parameters: on a real GPU parameters stay the same
    objects.
    """
    is_outermost = not REPLACED_TENSORS
    if is_outermost:
        REPLACED_TENSORS.append({})
    try:
        for child in module.children() if recurse else ():
            child._apply(function)
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is not None:
                    tensors[name] = convert_once(tensor, function, REPLACED_TENSORS[0])  # type: ignore[assignment]
    finally:
        if is_outermost:
            replacements = REPLACED_TENSORS.pop()
            for instance in gc.get_objects():
                # by the type, since `isinstance` would run the `__class__` property of lazy objects
                if issubclass(type(instance), torch.optim.Optimizer):
                    for group in instance.param_groups:
                        group["params"] = [replacements.get(p, p) for p in group["params"]]
    return module


def convert_once(
    tensor: Tensor, function: Callable[[Tensor], Tensor], replacements: dict[Tensor, Tensor]
) -> Tensor:
    """Return the function's result for a tensor, from `replacements` after the first call."""
    if tensor not in replacements:
        with torch.no_grad():
            converted = function(tensor)
            if hasattr(tensor, "become_on_device"):  # a weight that is quantized there
                converted = tensor.become_on_device(converted)
            elif isinstance(tensor, nn.Parameter):
                converted = nn.Parameter(converted, tensor.requires_grad)
        replacements[tensor] = converted
        # a module that two others share is met again when it is converted
        replacements[converted] = converted
    return replacements[tensor]


def convertible_modules() -> AbstractContextManager[None]:
    """Return a context in which modules of fake tensors can be converted."""
    return replace_attributes(nn.Module, _apply=convert_module)
