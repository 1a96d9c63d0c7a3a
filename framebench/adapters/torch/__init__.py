"""PyTorch: the adapter, and the switches of its strategies from one module per module of the catalog."""

from framebench.adapters.torch import checkpoint, generation, memory, offload, precision, quantized, scenarios, steps
from framebench.adapters.torch.adapter import TorchAdapter
from framebench.suite.case import Case

SWITCHES = (
    precision.switch
    | checkpoint.switch
    | steps.switch
    | offload.switch
    | memory.switch
    | quantized.switch
    | scenarios.switch
    | generation.switch
)


def make(case: Case) -> TorchAdapter:
    return TorchAdapter(case, SWITCHES)
