"""Shapes and strides that are told to cuDNN, and what PyTorch itself makes of the same convolutions. Printed as JSON."""

import json

import torch

from framebench.features.devices.simulation import cudnn
from framebench.features.devices.simulation.torch_convolutions import _shape, strides

ASKED = (  # x, weight, stride, padding, dilation, transposed, output padding, groups
    ((2, 3, 17, 17), (8, 3, 7, 7), (2, 2), (3, 3), (1, 1), False, (0, 0), 1),
    ((2, 8, 9, 11), (16, 4, 3, 3), (1, 2), (1, 0), (2, 1), False, (0, 0), 2),
    ((1, 4, 6, 6, 6), (8, 4, 3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), False, (0, 0, 0), 1),
    ((1, 8, 5, 5, 5), (8, 4, 2, 2, 2), (2, 2, 2), (0, 0, 0), (1, 1, 1), True, (0, 0, 0), 1),
    ((1, 8, 5, 7), (8, 4, 3, 3), (2, 3), (1, 1), (1, 1), True, (1, 2), 2),
)
LAST = {4: torch.channels_last, 5: torch.channels_last_3d}

told = []
for x, weight, stride, padding, dilation, transposed, more, groups in ASKED:
    values, filters = torch.empty(x, device="meta"), torch.empty(weight, device="meta")
    made = torch.ops.aten.convolution(values, filters, None, stride, padding, dilation, transposed, more, groups)
    ours = _shape(values, filters, stride, padding, dilation, more, transposed, groups)
    last = LAST[values.dim()]
    told.append([ours, made.shape])
    told.append([strides(x, torch.contiguous_format), values.stride()])
    told.append([strides(x, last), values.contiguous(memory_format=last).stride()])
print(json.dumps({"pairs": told, "cudnn": cudnn.version()}))
