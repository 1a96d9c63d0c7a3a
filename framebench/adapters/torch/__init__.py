"""PyTorch: the adapter, and the switches of its strategies from one module per module of the catalog."""

from framebench.adapters import common
from framebench.adapters.torch import checkpoint, memory, offload, precision, quantized, scenarios, steps
from framebench.adapters.torch.adapter import TorchAdapter
from framebench.suite.case import Case

MODULES = (common, precision, checkpoint, steps, offload, memory, quantized, scenarios)
SWITCHES = {name: function for module in MODULES for name, function in module.switch.items()}


def make(case: Case) -> TorchAdapter:
    return TorchAdapter(case, SWITCHES)
