"""A user's step in float64: casts to float32 that are written out, and operations that round to less all the same."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

NARROW = (torch.float32, torch.bfloat16, torch.float16)


class WidenedCasts(TorchFunctionMode):
    """Make casts to float32 casts to float64.

    People write `logits.float()` to leave a lower precision before a loss, not to come from a higher one.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function, with float64 in the place of float32 among its arguments."""
        if func is torch.Tensor.float:
            return args[0].double()
        widened = [torch.float64 if arg is torch.float32 else arg for arg in args]
        named = {name: torch.float64 if arg is torch.float32 else arg for name, arg in (kwargs or {}).items()}
        return func(*widened, **named)


class NarrowResults(TorchDispatchMode):
    """Keep the name of the first operation in here whose result has floating-point numbers below float64.

    A scalar may be narrow: PyTorch keeps counts of steps, for instance, in float32.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation, and look at what it gives."""
        result = func(*args, **(kwargs or {}))
        if not self.first:
            for leaf in tree_leaves(result):
                if isinstance(leaf, Tensor) and leaf.ndim and leaf.dtype in NARROW:
                    name = func._schema.name.removeprefix("aten::")
                    self.first = f"{name} in {str(leaf.dtype).removeprefix('torch.')}"
                    break
        return result
