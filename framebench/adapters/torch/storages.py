"""Bytes of the storages that a step makes, counted from their birth to their death."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Storages(TorchDispatchMode):
    """Bytes of all storages alive, and the most there were since `peak` was last set."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[int, weakref.finalize] = {}
        self.alive = self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            return 1.0  # the optimizer reads its step counter, which has no value here; any will do
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                self.born(tensor.untyped_storage())
        return out

    def born(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self.known:
            return
        self.known[key] = weakref.finalize(storage, self.died, key, size)
        self.alive += size
        self.peak = max(self.peak, self.alive)

    def died(self, key: int, size: int) -> None:
        del self.known[key]
        self.alive -= size
