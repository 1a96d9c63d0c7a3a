"""PyTorch's adapter, and the switches of its strategies.

Each module of the catalog (`framebench/strategies`) has a module of switches here.
"""

from framebench.adapters import common
from framebench.adapters.base import collect_switches
from framebench.adapters.torch import (
    checkpoint,
    generation,
    memory,
    offload,
    precision,
    quantized,
    scenarios,
    steps,
)
from framebench.adapters.torch.adapter import TorchAdapter

ADAPTER = TorchAdapter
SWITCHES = collect_switches(
    (
        common,
        precision,
        checkpoint,
        steps,
        offload,
        memory,
        quantized,
        scenarios,
        generation,
    )
)


def import_the_rest() -> None:
    """Import the modules that PyTorch imports only with the first optimizer."""
    import torch._dynamo  # noqa: F401
