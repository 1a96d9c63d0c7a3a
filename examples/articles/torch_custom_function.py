"""Article C, a `torch.autograd.Function` that saves every intermediate result, in the test phase
under `no_grad`.

`placebo` computes the same and saves nothing; `lean` saves its input alone. The profiler's events
of the allocator tell what one call has in use at most, temporaries included, and what it keeps when
it is over; hooks count the tensors that are saved.
"""

import json

import torch
from torch.profiler import ProfilerActivity, profile

X = torch.randn(1024, 1024)  # 4 MiB


class Wasteful(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        cube = x * x * x
        inner = 0.8 * (x + 0.045 * cube)
        gate = torch.tanh(inner)
        ctx.save_for_backward(x, cube, inner, gate)
        return 0.5 * x * (1 + gate)

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


class Placebo(Wasteful):
    @staticmethod
    def forward(ctx, x):
        cube = x * x * x
        inner = 0.8 * (x + 0.045 * cube)
        gate = torch.tanh(inner)
        return 0.5 * x * (1 + gate)


class Lean(Wasteful):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.nn.functional.gelu(x, approximate="tanh")


def allocated(call):
    """Bytes beside what was there before: at the most, and when the call is over and its result is
    held.
    """
    call()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        result = call()
    in_use = most = 0
    for event in sorted(seen.profiler.kineto_results.events(), key=lambda one: one.start_ns()):
        if event.name() == "[memory]":
            in_use += event.nbytes()
            most = max(most, in_use)
    del result
    return most, in_use


def saved(rule, x):
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: kept.append(t.nbytes) or t, lambda t: t
    ):
        rule.apply(x)
    return len(kept)


found = {}
for mode, context in (("eval", torch.no_grad), ("training", torch.enable_grad)):
    leaf = X.clone().requires_grad_()
    with context():
        for rule in (Wasteful, Placebo, Lean):
            most, kept = allocated(lambda rule=rule, leaf=leaf: rule.apply(leaf))
            found |= {
                f"{rule.__name__.lower()}_most_{mode}": most,
                f"{rule.__name__.lower()}_kept_{mode}": kept,
            }
        found[f"wasteful_saved_{mode}"] = saved(Wasteful, leaf)
print(json.dumps(found))
