"""How many blocks as large as a tensor a step asks for on a simulated GPU, by whether the tensor
that an operator gets is contiguous. Printed as JSON.
"""

import json

import torch
from torch.nn import functional as F

from framebench.devices.catalog import find
from framebench.devices.simulation.torch_simulate import simulate

SHAPE = (64, 64, 64, 64)
SIZE = 4 * 64**4


def normalize_layers(values, _):
    F.layer_norm(values, SHAPE[-1:])


def normalize_groups(values, _):
    assert F.group_norm(values, 2).is_contiguous()


def take_softmax(gradient, leaf):
    leaf.softmax(1).backward(gradient)


def look_up(gradient, leaf):
    """The rows that are looked up have as many numbers as the table."""
    places = torch.zeros(SHAPE[:3], dtype=torch.long, device=leaf.device)
    F.embedding(places, leaf.view(-1, SHAPE[-1])).backward(gradient)


def count_requests(run, is_contiguous):
    def make(device):
        tensor = torch.empty(SHAPE, device=device)
        leaf = torch.empty(SHAPE, device=device, requires_grad=True)
        if not is_contiguous:
            tensor = tensor.movedim(-1, 1)
        return lambda: run(tensor, leaf)

    trace = simulate(make, find("h100-80gb"), steps=1).watch.allocator.trace
    return sum(event.action == "alloc" and event.size == SIZE for event in trace)


answers = {}
for run in (normalize_layers, normalize_groups, take_softmax, look_up):
    answers[run.__name__] = [count_requests(run, is_contiguous) for is_contiguous in (True, False)]
print(json.dumps(answers))
