"""PyTorch's adapter, and the switches of its strategies.

Each module of the catalog (`framebench/strategies`) has a module of switches here.
"""

from framebench.adapters import common
from framebench.adapters.base import Switch, collect_switches
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
from framebench.suite.case import Case

MODULES = (
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
SWITCHES = collect_switches(MODULES)


def find_switches(case: Case) -> dict[str, Switch]:
    """Return the switches that the case can need, by the name in a row's `switch`."""
    if case.ranks == 1:
        return SWITCHES
    # imported here, since it would add to the memory and the start of every other case
    from framebench.adapters.torch import ranks

    return SWITCHES | ranks.switch.by_name


def import_the_rest() -> None:
    """Import the modules that PyTorch imports only with the first optimizer."""
    import torch._dynamo  # noqa: F401


def make(case: Case) -> TorchAdapter:
    """Return the adapter of the case."""
    return TorchAdapter(case, find_switches(case))
