"""Article C, a branch that `no_grad` does not cover, and a layer that enables gradients itself.

The article prints no listing of either. Eight layers are evaluated: all under `no_grad`, which is
the control; with the last four outside of it; and with a layer that calls `enable_grad`. The
profiler's events of the allocator tell the bytes that are in use when the result is there.
"""

import json
from contextlib import nullcontext

import torch
from torch.profiler import ProfilerActivity, profile

LAYERS = [torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU()) for _ in range(8)]
X = torch.randn(1024, 256)  # 1 MiB


def evaluate(outside=0, enabling=0):
    """Return the result, with so many of the last layers uncovered or enabling gradients."""
    x = X
    for number, layer in enumerate(LAYERS):
        is_last = number >= len(LAYERS) - max(outside, enabling)
        context = nullcontext() if is_last and outside else torch.no_grad()
        with context:
            if is_last and enabling:
                with torch.enable_grad():
                    x = layer(x)
            else:
                x = layer(x)
    return x


def measure(**layers):
    """Return the bytes in use while the result is held."""
    evaluate(**layers)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        result = evaluate(**layers)
    in_use = 0
    for event in recorded.profiler.kineto_results.events():
        if event.name() == "[memory]":
            in_use += event.nbytes()
    del result
    return in_use


found = {
    "covered": measure(),
    "branch_outside": measure(outside=4),
    "layers_enabling": measure(enabling=4),
}
print(json.dumps(found))
