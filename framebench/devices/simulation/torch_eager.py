"""What PyTorch does on a card above its kernels, and does otherwise with tensors that have no numbers.

A view that was overwritten, such as by a ReLU in place on what instance norm gives back, has the derivative
`AsStridedBackward0` (`VariableHooks::grad_fn` in torch/csrc/autograd/variable.cpp). It puts the gradient into new memory
(`as_strided_backward` in torch/csrc/autograd/FunctionsManual.cpp). Without numbers the view keeps its own derivative, and most
of those copy nothing.

`one_hot` writes ones into zeros; without numbers it compares, which takes a truth value for each (ATen/native/Onehot.cpp).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from framebench.devices.simulation.torch_device import NAME

VIEWS = ("Alias", "Detach", "Permute", "ReshapeAlias", "Squeeze", "T", "Transpose", "UnsafeView", "Unsqueeze", "View")
COPY_NOTHING = {f"{view}Backward{form}" for view in VIEWS for form in (0, 1, 2)}  # other derivatives make new memory already


class OnCard(TorchFunctionMode):
    """The same for all that a program calls while the mode is on, in autograd's threads too."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is functional.one_hot and args and args[0].device.type == NAME:
            return _one_hot(*args, **kwargs)
        first = args[0] if args and isinstance(args[0], Tensor) and torch.is_grad_enabled() else None
        if first is None or first.device.type != NAME or not first._is_view():
            return func(*args, **kwargs)
        version = first._version
        out = func(*args, **kwargs)
        if first._version != version:
            _copy_gradient(first)
        return out


def _one_hot(classes: Tensor, num_classes: int = -1) -> Tensor:
    if num_classes < 1:
        raise ValueError("one_hot looks for the largest class, and without numbers there is none: name num_classes")
    return torch.zeros(*classes.shape, num_classes, dtype=classes.dtype, device=classes.device).scatter_(
        -1, classes.unsqueeze(-1), 1
    )


def _copy_gradient(overwritten: Tensor) -> None:
    derivative = overwritten.grad_fn
    if derivative is not None and derivative.name() in COPY_NOTHING:
        derivative.register_prehook(lambda gradients: tuple(None if one is None else one.clone() for one in gradients))
