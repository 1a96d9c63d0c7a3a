"""Print as JSON how many of U-Net's convolutions PyTorch computes without oneDNN, by batch.

In float32 at the size `cpu`, on one thread and on two.
"""

import json
import sys

import torch
from torch.profiler import ProfilerActivity, profile

from framebench.models.unet3d import spec
from framebench.models.unet3d.torch_model import UNet3D

SLOW = ("aten::slow_conv3d", "aten::slow_conv_transpose3d")


def count_slow(model: UNet3D, batch: int, patch: int) -> int:
    """Return how many convolutions of a forward pass PyTorch's own kernels compute."""
    inputs = torch.zeros(batch, 1, patch, patch, patch)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        model(inputs)
    return sum(event.name in SLOW for event in profiler.events())


config = spec.WORKLOAD.sizes["cpu"].config
model = UNet3D(config)
batches = [int(word) for word in sys.argv[1:]]
counts = {}
for threads in (1, 2):
    torch.set_num_threads(threads)
    counts[threads] = {batch: count_slow(model, batch, config.patch) for batch in batches}
print(json.dumps(counts))
