"""What users reported about PyTorch, small enough for a CPU: each function returns the numbers that decide.

The programs are ours; the issues are https://github.com/pytorch/pytorch/issues/NUMBER, and what they report
stands in `framebench/claims/source_r.py`.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from framebench.instruments.host import status_bytes

WIDTH, ROWS, DEPTH = 256, 2048, 8
CALLS = 10_000
STEP = 1e-2  # along a gradient: at a third and at thrice of it the slope is the same to 1e-4
Numbers = dict[str, float]


def peak(step: Callable[[], Any]) -> float:
    """Bytes that the second of two steps has allocated at the most, beside what was there before it: the running sum of the
    allocator's events, as the profiler records them."""
    step()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as step_profile:
        step()
    results = step_profile.profiler.kineto_results if step_profile.profiler else None
    assert results
    in_use = most = 0
    for event in sorted(results.events(), key=lambda e: e.start_ns()):
        if event.name() == "[memory]":
            in_use += event.nbytes()
            most = max(most, in_use)
    return float(most)


def layer(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.GELU())


class Layers(nn.Module):
    """Equal layers, each recomputed in the backward pass if so."""

    def __init__(self, recomputed: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layer(WIDTH) for _ in range(DEPTH))
        self.recomputed = recomputed

    def forward(self, x: Tensor) -> Tensor:
        for one in self.layers:
            x = checkpoint(one, x, use_reentrant=False) if self.recomputed else one(x)
        return x


def trained(model: Callable[[Tensor], Tensor]) -> Callable[[], None]:
    x = torch.randn(ROWS, WIDTH)
    return lambda: model(x).sum().backward()


def checkpoint_without_reentry() -> Numbers:
    return {name: peak(trained(Layers(recomputed))) for name, recomputed in (("plain", False), ("checkpoint", True))}


def compiled_checkpoint() -> Numbers:
    model = Layers(True)
    return {"eager": peak(trained(model)), "compiled": peak(trained(torch.compile(model)))}


class Block(nn.Module):
    """Attention over itself, over a context if there is one, and two products with GELU between; each after a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.own = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.other = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.products = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor, context: Tensor | None) -> Tensor:
        y = self.norms[0](x)
        x = x + self.own(y, y, y, need_weights=False)[0]
        if context is not None:
            x = x + self.other(self.norms[1](x), context, context, need_weights=False)[0]
        return x + self.products(self.norms[2](x))


class Twice(nn.Module):
    """The same blocks twice in a step, without and with a context, every block recomputed; apart: a graph for each."""

    def __init__(self, apart: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH // 2))
        self.apart = apart

    def through(self, x: Tensor, context: Tensor | None) -> Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, context, use_reentrant=False)
        return x

    def forward(self, x: Tensor) -> Tensor:
        first = self.through(x, None)
        if self.apart:
            torch._dynamo.graph_break()
        return first.square().mean() + self.through(x, torch.ones_like(x)).square().mean()


def two_traversals() -> Numbers:
    x = torch.randn(8, 128, WIDTH)

    def of(model: Callable[[Tensor], Tensor]) -> float:
        return peak(lambda: model(x).backward())

    together, apart = Twice(), Twice(apart=True)
    apart.load_state_dict(together.state_dict())
    return {"eager": of(together), "compiled": of(torch.compile(together)), "apart": of(torch.compile(apart))}


class _Residual(nn.Module):
    """A 3x3 convolution beside a skip, which is a 1x1 convolution or nothing."""

    def __init__(self, channels: int, convolved: bool) -> None:
        super().__init__()
        self.main = nn.Conv2d(channels, channels, 3, padding=1)
        self.skip = nn.Conv2d(channels, channels, 1) if convolved else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        kept: Tensor = self.skip(x)
        return self.main(F.relu(x)) + kept


@torch.no_grad()
def fewer_parameters() -> Numbers:
    x = torch.randn(4, 16, 64, 64)
    peaks = {}
    for name, convolved in (("plain", False), ("convolved", True)):
        model = nn.Sequential(*(_Residual(16, convolved) for _ in range(DEPTH))).eval()
        compiled = torch.compile(model)
        peaks[f"{name}_eager"], peaks[name] = peak(lambda: model(x)), peak(lambda: compiled(x))  # noqa: B023
        torch._dynamo.reset()
    return peaks


@torch.no_grad()
def growth_of_calls() -> Numbers:
    """Bytes that Python holds for each call: in the first half and the second, compiled and not."""
    x = torch.randn(9, 3840, dtype=torch.bfloat16)
    compiled, eager = (_held_by_calls(call, x) for call in (torch.compile(_plus_one), _plus_one))
    return {"first": compiled[0], "later": compiled[1], "first_eager": eager[0], "later_eager": eager[1]}


def _plus_one(x: Tensor) -> Tensor:
    return x + 1


def _held_by_calls(call: Callable[[Tensor], Tensor], x: Tensor) -> list[float]:
    for _ in range(CALLS // 10):
        call(x)
    tracemalloc.start()
    held = []
    for _ in range(2):
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(CALLS):
            call(x)
        gc.collect()
        held.append((tracemalloc.get_traced_memory()[0] - before) / CALLS)
    tracemalloc.stop()
    return held


@torch.no_grad()
def resident() -> Numbers:
    model, x = nn.Sequential(*(_Block() for _ in range(4))).eval(), torch.randn(1, 64, WIDTH)
    for _ in range(3):
        model(x)
    eager = status_bytes("VmRSS")
    compiled = torch.compile(model)
    for _ in range(3):
        compiled(x)
    return {"eager": float(eager), "compiled": float(status_bytes("VmRSS"))}


class _Block(Block):
    """For nn.Sequential, which hands on one value."""

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        return super().forward(x, context)


@torch.no_grad()
def strided_convolution() -> Numbers:
    generator = torch.Generator().manual_seed(0)
    x, w = torch.randn(1, 16, 9, 9, 3, generator=generator), torch.randn(16, 16, 3, 3, 3, generator=generator)
    right, bfloat16_output = (F.conv3d(x.to(t), w.to(t), stride=3).double() for t in (torch.float64, torch.bfloat16))
    return {"relative_error": float((bfloat16_output - right).norm() / right.norm())}


@torch.no_grad()
def sum_of_ones() -> Numbers:
    ones = torch.ones(1, 1, 2, 2, dtype=torch.bfloat16)
    return {"found": float(F.conv2d(ones, ones))}


class _Dropping(nn.Module):
    """A product, and dropout of its hyperbolic tangent, beside what goes in."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.product, self.dropout = nn.Linear(width, width), nn.Dropout()

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = self.dropout(self.product(x).tanh())
        return x + added


def recomputed_dropout() -> Numbers:
    """Under three memory budgets."""
    return {name: _gradient_off(budget) for name, budget in (("nothing", 0.0), ("half", 0.5), ("whole", 1.0))}


def _gradient_off(budget: float) -> float:
    """The relative error of a compiled gradient's length against the slope of the loss along it, by small steps forward and
    back with the same seed."""
    import torch._functorch.config

    torch._dynamo.reset()
    torch.manual_seed(0)
    model, x = nn.Sequential(*(_Dropping(16) for _ in range(4))), torch.randn(4096, 16)
    compiled, weights = torch.compile(model), list(model.parameters())

    def loss() -> Tensor:
        torch.manual_seed(1)
        found: Tensor = compiled(x).square().mean()
        return found

    with torch._functorch.config.patch(activation_memory_budget=budget):
        gradient = torch.autograd.grad(loss(), weights)
        length = torch.stack([g.norm() for g in gradient]).norm()
        losses = []
        for step in (STEP, -2 * STEP):
            with torch.no_grad():
                for weight, g in zip(weights, gradient, strict=True):
                    weight.add_(g, alpha=step / float(length))
            losses.append(float(loss().detach()))
    return abs(float(length) / ((losses[0] - losses[1]) / (2 * STEP)) - 1)


REPORTS: dict[str, Callable[[], Numbers]] = {
    "77284": checkpoint_without_reentry,
    "105768": fewer_parameters,
    "120381": compiled_checkpoint,
    "163347": sum_of_ones,
    "167199": resident,
    "169688": strided_convolution,
    "174468": growth_of_calls,
    "190758": recomputed_dropout,
    "193193": two_traversals,
}
