"""How many blocks of a softmax's size a backward pass asks for on a simulated card, by the order of
the gradient's numbers. Printed as JSON.
"""

import json
from collections.abc import Callable

import torch

from framebench.devices.catalog import find
from framebench.devices.simulation.torch_simulate import simulate

SHAPE = (2, 3, 64, 64, 64)
SIZE = 4 * 2 * 3 * 64**3


def requests(contiguous: bool) -> int:
    def make(device: torch.device) -> Callable[[], None]:
        values = torch.empty(SHAPE, device=device, requires_grad=True)
        made = torch.empty(SHAPE if contiguous else (2, 64, 64, 64, 3), device=device)
        weights = made if contiguous else made.movedim(-1, 1)

        def step() -> None:
            values.grad = None
            (values.softmax(1) * weights).sum().backward()

        return step

    trace = simulate(make, find("h100-80gb"), steps=1).allocator.trace
    return sum(one.action == "alloc" and one.size == SIZE for one in trace)


print(json.dumps({"contiguous": requests(True), "permuted": requests(False)}))
