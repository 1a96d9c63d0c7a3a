"""PyTorch's steps on tensors that have shapes but no numbers (`FakeTensorMode`): any size, on any machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from framebench.adapters.base import Batch
from framebench.adapters.torch import SWITCHES
from framebench.adapters.torch.adapter import TorchAdapter
from framebench.suite.case import Case


class FakeAdapter(TorchAdapter):
    """Weights and batches by shape alone, on the CPU."""

    def __init__(self, case: Case) -> None:
        super().__init__(case, SWITCHES)
        self.where = torch.device("cpu")

    def load(self, config: Any, weights: dict[str, np.ndarray]) -> nn.Module:
        """In its dtype from the start: modules of fake tensors cannot be converted."""
        torch.set_default_dtype(self.recipe.dtype)
        model = self.model_module.build(config, **self.recipe.model_options)
        torch.set_default_dtype(torch.float32)
        return model.train(not self.recipe.evaluates)

    def put(self, x: np.ndarray, y: np.ndarray) -> Batch:
        x, y = x[self.recipe.share], y[self.recipe.share]
        dtype = torch.int64 if x.dtype.kind == "i" else self.recipe.dtype
        return self.recipe.on_input(torch.empty(x.shape, dtype=dtype)), torch.empty(y.shape, dtype=torch.int64)
