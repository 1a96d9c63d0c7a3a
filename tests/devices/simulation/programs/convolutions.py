"""What a convolution's backward pass asks for, in order: names of results, and bytes with their
sign. The weight lies in another order than cuDNN's. Printed as JSON.
"""

from __future__ import annotations

import json

import torch

from framebench.devices.simulation import torch_kernels
from framebench.devices.simulation.torch_gpu import Gpu

WORKSPACES = {"data": 7000, "filter": 9000}
torch_kernels.workspace = lambda kind, *_: [WORKSPACES[kind]]
values = torch.empty(2, 8, 6, 6, device="meta")
weight = torch.empty(8, 3, 3, 8, device="meta").movedim(-1, 1).expand(8, 8, 3, 3).movedim(0, 1)
results = {"input": values, "weight": weight, "bias": torch.empty(8, device="meta")}


def order_requests(*wanted: bool) -> list[str]:
    asked = [result if is_asked else None for result, is_asked in zip(results.values(), wanted)]
    arguments = (values, values, weight, [8], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, wanted)
    names = {id(result): name for name, result in results.items()}
    requests = []
    for one in torch_kernels.order_results("convolution_backward", asked, arguments, Gpu((9, 0))):
        if one is not None:
            requests.append(f"{one:+}" if isinstance(one, int) else names[id(one)])
    return requests


wanted = [(True, True, True), (False, True, False), (True, False, False)]
print(json.dumps([order_requests(*each) for each in wanted]))
