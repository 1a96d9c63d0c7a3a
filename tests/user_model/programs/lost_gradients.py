"""The gradient's norm of a convolution below an interpolation, in bfloat16's autocast: in eager
mode, and compiled.
"""

import json

import torch
from torch import nn
from torch.nn.functional import interpolate


def norm(compiled: bool) -> float:
    torch.manual_seed(0)
    first, last, x = nn.Conv2d(3, 8, 1, 4), nn.Conv2d(8, 8, 1), torch.randn(2, 3, 32, 32)

    def forward(x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = last(interpolate(first(x), size=(16, 16)))
        return output

    run = torch.compile(forward) if compiled else forward
    with torch.autocast("cpu", torch.bfloat16):
        output = run(x)
    output.float().square().mean().backward()
    assert first.weight.grad is not None
    return first.weight.grad.norm().item()


print(json.dumps({"eager": norm(compiled=False), "compiled": norm(compiled=True)}))
