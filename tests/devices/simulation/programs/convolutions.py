"""What a convolution's backward pass asks for, in order: names of results, and bytes with their
sign. The weight lies in another order than cuDNN's. Printed as JSON.
"""

import json

import torch

from framebench.devices.catalog import find
from framebench.devices.simulation import torch_kernels
from framebench.devices.simulation.torch_gpu import Gpu

WORKSPACES = {"data": 7000, "filter": 9000}
torch_kernels.find_workspace = lambda kind, *_: [WORKSPACES[kind]]
values = torch.empty(2, 8, 6, 6, device="meta")
weight = torch.empty(8, 3, 3, 8, device="meta").movedim(-1, 1).expand(8, 8, 3, 3).movedim(0, 1)
results = {"input": values, "weight": weight, "bias": torch.empty(8, device="meta")}


def order_requests(*output_mask):
    """Return what is requested in order, if `output_mask` asks for these gradients.

    They are those of input, weight and bias, as in `torch.ops.aten.convolution_backward`.
    """
    gradients = []
    for result, is_asked in zip(results.values(), output_mask):
        gradients.append(result if is_asked else None)
    arguments = (
        values,  # gradient of the output
        values,
        weight,
        [8],  # bias sizes
        [1, 1],  # stride
        [1, 1],  # padding
        [1, 1],  # dilation
        False,  # transposed
        [0, 0],  # output padding
        1,  # groups
        output_mask,
    )
    gpu = Gpu(find("h100-80gb"))
    names = {id(result): name for name, result in results.items()}
    requests = []
    for one in torch_kernels.order_results("convolution_backward", gradients, arguments, gpu):
        if isinstance(one, int):
            requests.append(f"{one:+}")
        elif one is not None:
            requests.append(names[id(one)])
    return requests


wanted = [(True, True, True), (False, True, False), (True, False, False)]
print(json.dumps([order_requests(*each) for each in wanted]))
