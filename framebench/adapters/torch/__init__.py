"""PyTorch: the adapter, and the switches of its strategies from one module per module of the catalog."""

from framebench.adapters import common
from framebench.adapters.torch import checkpoint, generation, memory, offload, precision, quantized, scenarios, steps
from framebench.adapters.torch.adapter import TorchAdapter
from framebench.suite.case import Case

MODULES = (common, precision, checkpoint, steps, offload, memory, quantized, scenarios, generation)
SWITCHES = {name: function for module in MODULES for name, function in module.switch.items()}


def make(case: Case) -> TorchAdapter:
    """Return the adapter of the case."""
    if case.ranks == 1:
        return TorchAdapter(case, SWITCHES)
    # what shares a step among ranks would add to the memory and the start of every other case
    from framebench.adapters.torch import ranks

    return TorchAdapter(case, SWITCHES | ranks.switch)
