"""Find operations that round to a narrower type than float64, whatever they are given."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

NARROW = (torch.float32, torch.bfloat16, torch.float16)


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
