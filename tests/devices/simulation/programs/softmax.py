"""How many blocks of a softmax's size a backward pass asks for on a simulated GPU, by the order of
the gradient's numbers. Printed as JSON.
"""

import json

import torch

from framebench.devices.catalog import find
from framebench.devices.simulation.torch_simulate import simulate

SHAPE = (2, 3, 64, 64, 64)
SIZE = 4 * 2 * 3 * 64**3


def count_requests(is_contiguous):
    def make(device):
        values = torch.empty(SHAPE, device=device, requires_grad=True)
        if is_contiguous:
            weights = torch.empty(SHAPE, device=device)
        else:
            weights = torch.empty(2, 64, 64, 64, 3, device=device).movedim(-1, 1)

        def step():
            values.grad = None
            (values.softmax(1) * weights).sum().backward()

        return step

    trace = simulate(make, find("h100-80gb"), steps=1).watch.allocator.trace
    return sum(event.action == "alloc" and event.size == SIZE for event in trace)


print(json.dumps({"contiguous": count_requests(True), "permuted": count_requests(False)}))
