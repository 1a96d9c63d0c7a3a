"""Article C, `half()` together with `autocast`, in inference; and `half()` alone.

The profiler's events of the allocator tell the most that a call has allocated.
"""

import contextlib
import json

import torch
from torch.profiler import ProfilerActivity, profile

model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(8))).eval()
full = sum(p.nbytes for p in model.parameters())
model.half()
batch = torch.randn(1024, 256).half()


def call(around):
    """Whether the outputs are finite, and bytes at the most beside what was there before."""
    with torch.no_grad(), around:
        model(batch)
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
            out = model(batch)
    in_use = most = 0
    for event in sorted(seen.profiler.kineto_results.events(), key=lambda one: one.start_ns()):
        if event.name() == "[memory]":
            in_use += event.nbytes()
            most = max(most, in_use)
    return int(out.isfinite().all()), most


finite, most = call(torch.autocast("cpu", dtype=torch.float16))
finite_alone, most_alone = call(contextlib.nullcontext())
weights = {"weights": sum(p.nbytes for p in model.parameters()), "weights_float32": full}
print(
    json.dumps(
        weights
        | {"finite": finite, "most": most, "finite_alone": finite_alone, "most_alone": most_alone}
    )
)
