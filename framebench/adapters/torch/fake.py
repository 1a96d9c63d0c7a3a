"""Predict the eager peak of a PyTorch case without computing it: `python -m framebench.adapters.torch.fake CASE`.

The adapter's own steps run on tensors that have shapes but no numbers (`FakeTensorMode`), while every storage that an operator
makes is counted from its birth to its death. So any size can be predicted on any machine. What kernels use inside themselves
is not seen (oneDNN's reordered copies; the unrolled volume, 27 times the input, of a 3-D convolution of a single sample), nor
what the allocator adds. Which cases have no such prediction is said by `hypothetical.obstacle`.
"""

from __future__ import annotations

import json
import sys
import weakref
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from framebench.adapters.base import Batch
from framebench.adapters.torch.adapter import TorchAdapter
from framebench.suite.case import Case
from framebench.suite.hypothetical import named


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


class FakeAdapter(TorchAdapter):
    """Weights and batches by shape alone, on the CPU."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.where = torch.device("cpu")

    def load(self, config: Any, weights: dict[str, np.ndarray]) -> nn.Module:
        """In its dtype from the start: modules of fake tensors cannot be converted."""
        torch.set_default_dtype(self.dtype)
        model = self.model_module.build(config, **self.model_options)
        torch.set_default_dtype(torch.float32)
        return model.train(not self.evaluates)

    def put(self, x: np.ndarray, y: np.ndarray) -> Batch:
        dtype = torch.int64 if x.dtype.kind == "i" else self.dtype
        return self.on_input(torch.empty(x.shape, dtype=dtype)), torch.empty(y.shape, dtype=torch.int64)


def predict(case: Case) -> dict[str, int]:
    """Bytes alive between two steps, and the peak of the second step, in which the optimizer has its states."""
    with FakeTensorMode(), Storages() as storages:
        adapter = FakeAdapter(case)
        adapter.build()
        adapter.step()
        adapter.release()
        live = storages.peak = storages.alive
        adapter.step()
    return {"live_bytes": live, "predicted": storages.peak}


if __name__ == "__main__":
    print(json.dumps(predict(named(sys.argv[1]))))
