"""PyTorch's steps on tensors that have shapes but no numbers (`FakeTensorMode`): any size, on any machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from framebench.adapters.torch import switches_of
from framebench.adapters.torch.adapter import TorchAdapter
from framebench.suite.case import Case


class FakeAdapter(TorchAdapter):
    """Weights and batches by shape alone, on the CPU."""

    def __init__(self, case: Case) -> None:
        super().__init__(case, switches_of(case))
        self.where = torch.device("cpu")

    def canonical(self, config: Any) -> dict[str, np.ndarray]:
        """None are made."""
        return {}

    def load(self, config: Any, weights: dict[str, np.ndarray]) -> nn.Module:
        """In its dtype from the start: modules of fake tensors cannot be converted."""
        torch.set_default_dtype(self.recipe.dtype)
        model = self.model_module.build(config, **self.recipe.model_options)
        torch.set_default_dtype(torch.float32)
        return model.train(not self.recipe.evaluates)

    def put_input(self, x: np.ndarray) -> Tensor:
        inputs = self.put_target(x)
        return self.recipe.on_input(inputs.to(self.recipe.dtype) if inputs.is_floating_point() else inputs)

    def put_target(self, y: np.ndarray) -> Tensor:
        return self.like(y[self.recipe.share] if y.ndim else y)

    def like(self, array: np.ndarray) -> Tensor:
        dtype = torch.from_numpy(np.empty(0, array.dtype)).dtype
        return torch.empty(array.shape, dtype=dtype)


class FakeOnDevice(FakeAdapter):
    """Made on the host and moved to a device, as the adapter does it; in a mode that lets modules of fake tensors move."""

    def __init__(self, case: Case, where: torch.device) -> None:
        super().__init__(case)
        self.where = where

    def load(self, config: Any, weights: dict[str, np.ndarray]) -> nn.Module:
        model = self.model_module.build(config, **self.recipe.model_options)
        return model.to(self.where, self.recipe.dtype).train(not self.recipe.evaluates)

    def put_target(self, y: np.ndarray) -> Tensor:
        return super().put_target(y).to(self.where)
