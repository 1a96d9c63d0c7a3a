"""Run PyTorch's steps of any size on any machine, on fake tensors.

Fake tensors have shapes but no numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from framebench.adapters.torch import switches_of
from framebench.adapters.torch.adapter import TorchAdapter
from framebench.suite.case import Case


class FakeAdapter(TorchAdapter):
    """A case whose weights and batches have shapes alone, on the CPU."""

    def __init__(self, case: Case) -> None:
        super().__init__(case, switches_of(case))
        self.torch_device = torch.device("cpu")

    def canonical(self, config: Any) -> dict[str, np.ndarray]:
        """Return no weights: fake ones have no numbers."""
        return {}

    def load(self, config: Any, weights: dict[str, np.ndarray]) -> nn.Module:
        """Return a model built in the precision of the case: fake tensors cannot be converted."""
        torch.set_default_dtype(self.recipe.dtype)
        model = self.model_module.build(config, **self.recipe.model_options)
        torch.set_default_dtype(torch.float32)
        return model.train(not self.recipe.evaluates)

    def put_target(self, y: np.ndarray | Tensor) -> Tensor:
        if isinstance(y, Tensor):  # a user's sparse one
            return y
        share = y[self.recipe.share] if y.ndim else y
        dtype = torch.from_numpy(np.empty(0, share.dtype)).dtype
        return torch.empty(share.shape, dtype=dtype)


class FakeOnDevice(FakeAdapter):
    """A case that is made on the host and moved to a device, as `TorchAdapter` does it.

    Its mode must let modules of fake tensors move.
    """

    def __init__(self, case: Case, device: torch.device) -> None:
        super().__init__(case)
        self.torch_device = device

    def load(self, config: Any, weights: dict[str, np.ndarray]) -> nn.Module:
        model = self.model_module.build(config, **self.recipe.model_options)
        model = model.to(self.torch_device, self.recipe.dtype)
        return model.train(not self.recipe.evaluates)

    def put_target(self, y: np.ndarray | Tensor) -> Tensor:
        return super().put_target(y).to(self.torch_device)
