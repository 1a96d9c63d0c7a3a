"""Article B, channels that L1 pruning finds redundant: removed from the model, or only masked.

The article prints no listing. Half of the channels between two convolutions are pruned by
`torch.nn.utils.prune.ln_structured`. The model is then rebuilt without them; the control keeps
their masks, or removes the masks and keeps the zeros. The profiler's events of the allocator tell
the peak of a training step.
"""

import json

import torch
from torch import nn
from torch.nn.utils import prune
from torch.profiler import ProfilerActivity, profile

X = torch.randn(4, 16, 32, 32)


def make_model(channels):
    """Return two convolutions with so many channels between them."""
    return nn.Sequential(
        nn.Conv2d(16, channels, 3, padding=1), nn.ReLU(), nn.Conv2d(channels, 16, 3, padding=1)
    )


def count_weights(model):
    """Return the bytes of parameters and buffers."""
    return sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))


def measure_step(model):
    """Return the most bytes that a training step has allocated, with the gradients."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        model(X).square().mean().backward()
    in_use = most = 0
    for event in sorted(recorded.profiler.kineto_results.events(), key=lambda one: one.start_ns()):
        if event.name() == "[memory]":
            in_use += event.nbytes()
            most = max(most, in_use)
    model.zero_grad()
    return most


def remove_channels(model, kept):
    """Return the model without the channels that are not kept."""
    smaller = make_model(len(kept))
    with torch.no_grad():
        smaller[0].weight.copy_(model[0].weight[kept])
        smaller[0].bias.copy_(model[0].bias[kept])
        smaller[2].weight.copy_(model[2].weight[:, kept])
        smaller[2].bias.copy_(model[2].bias)
    return smaller


torch.manual_seed(0)
model = make_model(64)
measure_step(model)  # what a library keeps of its first call
found = {"weights": count_weights(model), "peak": measure_step(model)}
prune.ln_structured(model[0], "weight", amount=0.5, n=1, dim=0)
found |= {"weights_masked": count_weights(model), "peak_masked": measure_step(model)}
kept = model[0].weight_mask.flatten(1).any(1).nonzero().flatten()
prune.remove(model[0], "weight")
found |= {"weights_zeros": count_weights(model), "peak_zeros": measure_step(model)}
pruned = remove_channels(model, kept)
found |= {"weights_removed": count_weights(pruned), "peak_removed": measure_step(pruned)}
print(json.dumps(found))
