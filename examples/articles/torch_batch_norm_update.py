"""Article C, what an update of batch norm's statistics takes in the test phase.

The article's listing calls `eval()`, after which nothing is updated. Here the same model is
evaluated under `no_grad` with and without the update; the control has no batch norm. A layer alone
tells what an update takes that is over before the model's peak. Its base normalizes by the batch's
statistics too, and has none to update. The profiler's events of the allocator tell the most bytes
in use.
"""

import json

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

X = torch.randn(8, 16, 32, 32)


def make_model(norm):
    """Return convolutions with this layer behind each."""
    layers = []
    for _ in range(4):
        layers += [nn.Conv2d(16, 16, 3, padding=1), norm(16), nn.ReLU()]
    return nn.Sequential(*layers)


@torch.no_grad()
def measure(model):
    """Return the most bytes that an evaluation has allocated."""
    model(X)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        model(X)
    in_use = most = 0
    for event in sorted(recorded.profiler.kineto_results.events(), key=lambda one: one.start_ns()):
        if event.name() == "[memory]":
            in_use += event.nbytes()
            most = max(most, in_use)
    return most


torch.manual_seed(0)
found = {}
for name, norm in (("norm", nn.BatchNorm2d), ("no_norm", nn.Identity)):
    model = make_model(norm)
    found[f"{name}_updated"] = measure(model.train())
    found[f"{name}_frozen"] = measure(model.eval())
    layer = norm(16)
    found[f"{name}_layer_updated"] = measure(layer.train())
    found[f"{name}_layer_frozen"] = measure(layer.eval())
untracked = nn.BatchNorm2d(16, track_running_stats=False)
found["norm_layer_untracked"] = measure(untracked.train())
print(json.dumps(found))
