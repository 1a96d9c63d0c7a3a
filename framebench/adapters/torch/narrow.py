"""Run a user's step in float64 in spite of casts to float32, and find what is still narrower."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

NARROW = (torch.float32, torch.bfloat16, torch.float16)


class WidenedCasts(TorchFunctionMode):
    """A context in which casts to float32 are casts to float64.

    People write `logits.float()` to leave a lower precision before a loss, not to come from a
    higher one.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function, with float64 for float32 among its arguments."""
        if func is torch.Tensor.float:
            return args[0].double()
        widened = [_widen(arg) for arg in args]
        named = {name: _widen(arg) for name, arg in (kwargs or {}).items()}
        return func(*widened, **named)


def _widen(argument: Any) -> Any:
    return torch.float64 if argument is torch.float32 else argument


class NarrowResults(TorchDispatchMode):
    """A context that keeps the name of the first operation with a result narrower than float64.

    A scalar may be narrow: PyTorch keeps counts of steps, for instance, in float32.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and look at its results."""
        result = func(*args, **(kwargs or {}))
        if not self.first:
            for leaf in tree_leaves(result):
                if isinstance(leaf, Tensor) and leaf.ndim and leaf.dtype in NARROW:
                    name = func._schema.name.removeprefix("aten::")
                    self.first = f"{name} in {str(leaf.dtype).removeprefix('torch.')}"
                    break
        return result
