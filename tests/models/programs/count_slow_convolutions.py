"""Print as JSON how many of ResNet-50's convolutions PyTorch computes without oneDNN, by batch.

On one thread in float32, and under autocast in bfloat16 where oneDNN computes in it here; and in
float32 on two threads.
"""

import contextlib
import json
import sys

import torch
from torch.profiler import ProfilerActivity, profile

from framebench.models.resnet50.spec import ResNetConfig
from framebench.models.resnet50.torch_model import ResNet


def count_slow(model: ResNet, batch: int, is_amp: bool) -> int:
    """Return how many convolutions of a forward pass PyTorch's own kernel computes."""
    inputs = torch.zeros(batch, 3, 64, 64)
    precision = torch.autocast("cpu", torch.bfloat16) if is_amp else contextlib.nullcontext()
    with profile(activities=[ProfilerActivity.CPU]) as profiler, precision:
        model(inputs)
    names = [event.name for event in profiler.events()]
    return names.count("aten::_slow_conv2d_forward")


torch.set_num_threads(1)
model = ResNet(ResNetConfig(image=64))
batches = [int(word) for word in sys.argv[1:]]
counts = {"fp32": {batch: count_slow(model, batch, is_amp=False) for batch in batches}}
if torch.ops.mkldnn._is_mkldnn_bf16_supported():  # else no kernel of oneDNN's is there to choose
    counts["amp_bf16"] = {batch: count_slow(model, batch, is_amp=True) for batch in batches}
torch.set_num_threads(2)
counts["two threads"] = {batch: count_slow(model, batch, is_amp=False) for batch in batches}
print(json.dumps(counts))
