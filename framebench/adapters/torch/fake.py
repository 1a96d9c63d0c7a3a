"""Run PyTorch's steps of any size on any machine, on fake tensors.

Fake tensors have shapes but no numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes

from framebench.adapters import find_switches
from framebench.adapters.torch.adapter import TorchAdapter
from framebench.adapters.torch.fake_numbers import know_numbers
from framebench.adapters.torch.modes import set_mode, use_default_dtype
from framebench.suite.case import Case


class FakeAdapter(TorchAdapter):
    """A case whose weights and batches have shapes and no values.

    On the CPU the model is built in the precision of the case, since fake tensors cannot be
    converted. For another device it is made on the host and moved, as `TorchAdapter` does it; the
    mode must let modules of fake tensors move (`fake_modules.py`).
    """

    def __init__(self, case: Case, device: torch.device | str = "cpu") -> None:
        """Prepare a case for a device, which this machine need not have."""
        super().__init__(case, find_switches(case))
        self.torch_device = torch.device(device)

    def get_initial_weights(self, config: Any) -> dict[str, np.ndarray]:
        """Return no weights: fake tensors have no numbers."""
        return {}

    def load(self, config: Any, weights: dict[str, np.ndarray]) -> nn.Module:
        is_moved = self.torch_device.type != "cpu"
        # fake tensors cannot be converted on the CPU: there the model is built in its final dtype
        with use_default_dtype(torch.float32 if is_moved else self.recipe.dtype):
            model = self.model_module.build(config, **self.recipe.model_options)
        if not is_moved and self.is_user_model:
            self.model_module.check_not_in_4bit(model)
        if is_moved and self.is_user_model:
            model = narrow_float64(model).to(self.torch_device)
        elif is_moved:
            model = model.to(self.torch_device, self.recipe.dtype)
        return set_mode(model, self.recipe.evaluates)

    def put_target(self, y: np.ndarray | Tensor) -> Tensor:
        """Return a fake tensor of this rank's share, whose numbers are known if it is small.

        A model may read them, such as the lengths of packed texts.
        """
        with _disable_current_modes():
            if isinstance(y, np.ndarray):
                y = torch.from_numpy(y[self.recipe.share] if y.ndim else y)
        if y.layout == torch.strided and not y.is_nested:
            with _disable_current_modes():
                y = y.contiguous()
            fake = torch.empty(y.shape, dtype=y.dtype)
            know_numbers(fake, y)
            y = fake
        return y.to(self.torch_device)


def narrow_float64(model: nn.Module) -> nn.Module:
    """Convert a user's float64 buffers to float32, as a measured run does.

    Weights in float64 are refused, and all other types stay as the file has them.
    """

    def narrow(tensor: Tensor) -> Tensor:
        return tensor.float() if tensor.dtype == torch.float64 else tensor

    return model._apply(narrow)
