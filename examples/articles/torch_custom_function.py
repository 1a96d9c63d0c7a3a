"""Article C, a `torch.autograd.Function` that saves its input needlessly, and the repaired one.

Each is called under `no_grad` and with gradients, with an input that is held anyway and with one
that nobody else holds (`passing`). What is left is told after the backward pass, and after calls
without one whose results nobody holds, as in a test phase. After the article are `Wasteful`, which
saves four tensors, and `Placebo`, which computes the same and saves nothing. The profiler's events
of the allocator tell bytes.
"""

import json

import torch
from torch.profiler import ProfilerActivity, profile

X = torch.randn(1024, 1024)  # 4 MiB


class CustomFunc(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad_output):
        x = ctx.saved_tensors[0]  # noqa: F841
        return grad_output * 2


class OptimizedFunc(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * 2


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


def measure(call):
    """Return bytes beside what was there before: at the most, and while the result is held."""
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


def run_backward(rule, leaf, retain_graph):
    """Return the result of a call whose backward pass is over."""
    result = rule.apply(leaf * 1)
    result.sum().backward(retain_graph=retain_graph)
    return result


def call_without_backward(rule, leaf):
    """Call a Function with gradients eight times, as a test does that forgets `no_grad`."""
    for _ in range(8):
        rule.apply(leaf * 1)


found = {}
article = {"custom": CustomFunc, "optimized": OptimizedFunc}
for mode, context in (("eval", torch.no_grad), ("training", torch.enable_grad)):
    leaf = X.clone().requires_grad_()
    with context():
        for name, rule in article.items():
            found[f"{name}_kept_{mode}"] = measure(lambda f=rule, x=leaf: f.apply(x))[1]
            passing = measure(lambda f=rule, x=leaf: f.apply(x * 1))
            found[f"{name}_kept_{mode}_passing"] = passing[1]
        for rule in (Wasteful, Placebo):
            most, kept = measure(lambda f=rule, x=leaf: f.apply(x))
            name = rule.__name__.lower()
            found |= {f"{name}_most_{mode}": most, f"{name}_kept_{mode}": kept}
leaf = X.clone().requires_grad_()
for name, rule in article.items():
    for word, retained in (("left", False), ("retained", True)):
        found[f"{name}_{word}"] = measure(
            lambda f=rule, keep=retained: run_backward(f, leaf, retain_graph=keep)
        )[1]
    found[f"{name}_left_by_calls"] = measure(lambda f=rule: call_without_backward(f, leaf))[1]
print(json.dumps(found))
