"""What a convolution's backward pass asks for, in order. Printed as JSON."""

import json

import torch

from framebench.devices.simulation import torch_kernels
from framebench.devices.simulation.torch_gpu import Gpu


def backward(*wanted: bool) -> list[str]:
    """Return the names of results, and bytes with their sign; the weight lies in another order than
    cuDNN's.
    """
    torch_kernels.workspace = lambda kind, *_: [{"data": 7000, "filter": 9000}[kind]]
    gradient, values = (torch.empty(2, 8, 6, 6, device="meta") for _ in range(2))
    weight = torch.empty(8, 3, 3, 8, device="meta").movedim(-1, 1).expand(8, 8, 3, 3).movedim(0, 1)
    parts = {"input": values, "weight": weight, "bias": torch.empty(8, device="meta")}
    results = [part if asked else None for part, asked in zip(parts.values(), wanted)]
    names = {id(part): name for name, part in parts.items()}
    arguments = (gradient, values, weight, [8], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, wanted)
    requests = []
    for request in torch_kernels.order_results(
        "convolution_backward", results, arguments, Gpu((9, 0))
    ):
        if isinstance(request, int):
            requests.append(f"{request:+}")
        elif request is not None:
            requests.append(names[id(request)])
    return requests


print(
    json.dumps(
        [backward(True, True, True), backward(False, True, False), backward(True, False, False)]
    )
)
