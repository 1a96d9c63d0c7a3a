"""Count the bytes of the storages that a step makes, from their birth to their death.

`explain/torch_account.py` has a subclass of `Storages` that labels each storage. Other trackers
serve other purposes: `observe.StepCounter` counts what one forward pass saves,
`growth/torch_counters.py` names the operator and line of what stays alive between steps, and
`devices/simulation/torch_watch.py` gives each storage a block of a simulated allocator.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Storages(TorchDispatchMode):
    """A context that counts the bytes of all storages alive, and the most since `peak` was set.

    It is meant for fake tensors: an optimizer that reads its count of steps gets 1.
    """

    def __init__(self) -> None:
        """Begin without storages."""
        super().__init__()
        # by the address of a storage that is alive
        self.finalizers: dict[int, weakref.finalize] = {}
        self.alive = 0
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator and enter the storages of its results."""
        if func is torch.ops.aten._local_scalar_dense.default:
            return 1.0  # a fake tensor has no number to read; any will do
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                self.add_storage(tensor.untyped_storage())
        return out

    def add_storage(self, storage: torch.UntypedStorage) -> None:
        """Count a storage until it dies, unless it is counted already."""
        key = storage._cdata
        size = storage.nbytes()
        if key in self.finalizers:
            return
        self.finalizers[key] = weakref.finalize(storage, self.remove_storage, key, size)
        self.alive += size
        self.peak = max(self.peak, self.alive)

    def remove_storage(self, key: int, size: int) -> None:
        """Count the bytes of a storage no longer: it was freed."""
        del self.finalizers[key]
        self.alive -= size
