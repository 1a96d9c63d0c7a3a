"""Shapes and strides that are told to cuDNN, and what PyTorch itself makes of the same convolutions. Printed as JSON."""

import json

import torch

from framebench.devices.simulation import cudnn, torch_kernels
from framebench.devices.simulation.torch_card import Card
from framebench.devices.simulation.torch_convolutions import _shape, strides

ASKED = (  # x, weight, stride, padding, dilation, transposed, output padding, groups
    ((2, 3, 17, 17), (8, 3, 7, 7), (2, 2), (3, 3), (1, 1), False, (0, 0), 1),
    ((2, 8, 9, 11), (16, 4, 3, 3), (1, 2), (1, 0), (2, 1), False, (0, 0), 2),
    ((1, 4, 6, 6, 6), (8, 4, 3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), False, (0, 0, 0), 1),
    ((1, 8, 5, 5, 5), (8, 4, 2, 2, 2), (2, 2, 2), (0, 0, 0), (1, 1, 1), True, (0, 0, 0), 1),
    ((1, 8, 5, 7), (8, 4, 3, 3), (2, 3), (1, 1), (1, 1), True, (1, 2), 2),
)
LAST = {4: torch.channels_last, 5: torch.channels_last_3d}

result = []
for x, weight, stride, padding, dilation, transposed, more, groups in ASKED:
    values, filters = torch.empty(x, device="meta"), torch.empty(weight, device="meta")
    made = torch.ops.aten.convolution(values, filters, None, stride, padding, dilation, transposed, more, groups)
    ours = _shape(values, filters, stride, padding, dilation, more, transposed, groups)
    last = LAST[values.dim()]
    result.append([ours, made.shape])
    result.append([strides(x, torch.contiguous_format), values.stride()])
    result.append([strides(x, last), values.contiguous(memory_format=last).stride()])


def backward(*wanted: bool) -> list[str]:
    """What a convolution's backward pass asks for, in order; the weight lies in another order than cuDNN's."""
    torch_kernels.workspaces = lambda kind, *_: iter([{"data": 7000, "filter": 9000}[kind]])
    gradient, values = (torch.empty(2, 8, 6, 6, device="meta") for _ in range(2))
    weight = torch.empty(8, 3, 3, 8, device="meta").movedim(-1, 1).expand(8, 8, 3, 3).movedim(0, 1)
    results = [part if asked else None for part, asked in zip((values, weight, torch.empty(8, device="meta")), wanted)]
    names = {id(part): name for part, name in zip(results, ("input", "weight", "bias")) if part is not None}
    arguments = (gradient, values, weight, [8], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, wanted)
    asked = torch_kernels.as_allocated("convolution_backward", results, arguments, Card((9, 0)))
    return [
        names[id(one)] if isinstance(one, torch.Tensor) else f"{'+' if one[1] else '-'}{one[0]}"
        for one in asked
        if one is not None
    ]


orders = [backward(True, True, True), backward(False, True, False), backward(True, False, False)]
print(json.dumps({"pairs": result, "cudnn": cudnn.version(), "orders": orders}))
