"""Beside article B's norm, which does not exist: what a step of a 3-D network adds with
`nn.BatchNorm3d` and without.

Bytes in use at the most, by the profiler's events of the allocator; and whether PyTorch has the
article's name.
"""

import json

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile


def network(normed):
    layers = []
    for _ in range(4):
        layers += [nn.Conv3d(16, 16, 3, padding=1), *([nn.BatchNorm3d(16)] * normed), nn.ReLU()]
    return nn.Sequential(*layers)


def most(normed):
    torch.manual_seed(0)
    model, x = network(normed), torch.randn(2, 16, 32, 32, 32)

    def step():
        model(x).square().mean().backward()

    step()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        step()
    in_use = most = 0
    for event in sorted(seen.profiler.kineto_results.events(), key=lambda one: one.start_ns()):
        if event.name() == "[memory]":
            in_use += event.nbytes()
            most = max(most, in_use)
    return most


print(
    json.dumps(
        {
            "plain": most(False),
            "normed": most(True),
            "volume_norms": hasattr(nn, "VolumeBatchNorm3d"),
        }
    )
)
