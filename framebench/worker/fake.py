"""Predict the eager peak of a PyTorch case without computing it: `python -m framebench.worker.fake CASE`, in
PyTorch's environment.

The adapter's own steps run on tensors that have shapes but no numbers (`FakeTensorMode`), while every storage that an operator
makes is counted from its birth to its death. So any size can be predicted on any machine. What kernels use inside themselves
is not seen (oneDNN's reordered copies; the unrolled volume, 27 times the input, of a 3-D convolution of a single sample), nor
what the allocator adds. Which cases have no such prediction is said by `hypothetical.obstacle`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from framebench.adapters.base import Batch
from framebench.adapters.torch import SWITCHES
from framebench.adapters.torch.adapter import TorchAdapter
from framebench.adapters.torch.storages import Storages
from framebench.suite.case import Case
from framebench.suite.hypothetical import named


class FakeAdapter(TorchAdapter):
    """Weights and batches by shape alone, on the CPU."""

    def __init__(self, case: Case) -> None:
        super().__init__(case, SWITCHES)
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
