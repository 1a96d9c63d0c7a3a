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


def normalize_batch(gradient, leaf):
    """cuDNN takes the gradient in the order of the input."""
    weight = torch.ones(SHAPE[1], device=leaf.device)
    F.batch_norm(leaf, None, None, weight, weight, training=True).backward(gradient)


def normalize_batch_by_torch(gradient, leaf):
    """PyTorch's own kernel takes either order."""
    with torch.backends.cudnn.flags(enabled=False):
        normalize_batch(gradient, leaf)


def count_requests(run, is_contiguous):
    def make(device):
        tensor = torch.empty(SHAPE, device=device)
        leaf = torch.empty(SHAPE, device=device, requires_grad=True)
        if not is_contiguous:
            tensor = tensor.movedim(-1, 1)
        return lambda: run(tensor, leaf)

    trace = simulate(make, find("h100-80gb"), steps=1).watch.allocator.trace
    return sum(event.action == "alloc" and event.size == SIZE for event in trace)


def normalize_texts(channels_last):
    """Return how many blocks of the input's size a batch norm asks for, and how many stay.

    Texts whose channels come last are dense in no format of three axes, and cuDNN copies them.
    """
    alive = []

    def make(device):
        values = torch.empty(64, 512, 256, device=device, requires_grad=True)
        weight = torch.ones(256 if channels_last else 512, device=device)

        def step():
            doubled = 2 * values
            if channels_last:
                doubled = doubled.transpose(1, 2)
            normalized = F.batch_norm(doubled, None, None, weight, weight, training=True)
            del doubled
            alive.append(torch.cuda.memory_allocated() // values.nbytes)
            return normalized

        return step

    trace = simulate(make, find("h100-80gb"), steps=1).watch.allocator.trace
    size = 4 * 64 * 512 * 256
    return [sum(event.action == "alloc" and event.size == size for event in trace), *alive]


answers = {}
OPERATORS = (
    normalize_layers,
    normalize_groups,
    take_softmax,
    look_up,
    normalize_batch,
    normalize_batch_by_torch,
)
for run in OPERATORS:
    answers[run.__name__] = [count_requests(run, is_contiguous) for is_contiguous in (True, False)]
answers["texts"] = [normalize_texts(channels_last) for channels_last in (False, True)]
print(json.dumps(answers))
