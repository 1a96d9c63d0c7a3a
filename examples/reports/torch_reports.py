"""What users reported about PyTorch, small enough for a CPU: `python torch_reports.py NUMBER`.

The last line that it prints has the numbers that decide, which the function of `REPORTS` returns.

The programs are ours; the issues are https://github.com/pytorch/pytorch/issues/NUMBER, and what
they report stands in `framebench/claims/sources/r.toml`.
"""

from __future__ import annotations

import gc
import json
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import torch
import torch._functorch.config
import torch.nn.functional as F
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from framebench.instruments.host import read_status

WIDTH, ROWS, DEPTH = 256, 2048, 8
CALLS = 10_000
STEP = 1e-2  # along a gradient: at a third and at thrice of it the slope is the same to 1e-4
Numbers = dict[str, float]


def measure_peak(step: Callable[[], Any]) -> float:
    """Return the bytes that the second of two steps has allocated at the most.

    What was there before it is not counted. It is the running sum of the allocator's events, as the
    profiler records them.
    """
    step()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as step_profile:
        step()
    assert step_profile.profiler
    results = step_profile.profiler.kineto_results
    assert results
    in_use = peak = 0
    for event in sorted(results.events(), key=lambda event: event.start_ns()):
        if event.name() == "[memory]":
            in_use += event.nbytes()
            peak = max(peak, in_use)
    return float(peak)


class Layers(nn.Module):
    """Equal layers, perhaps each recomputed in the backward pass."""

    def __init__(self, recomputed: bool) -> None:
        super().__init__()
        layers = [
            nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.GELU())
            for _ in range(DEPTH)
        ]
        self.layers = nn.ModuleList(layers)
        self.recomputed = recomputed

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.recomputed else layer(x)
        return x


def measure_training(model: Callable[[Tensor], Tensor]) -> float:
    """Return the peak of a forward and a backward pass."""
    x = torch.randn(ROWS, WIDTH)
    return measure_peak(lambda: model(x).sum().backward())


def checkpoint_without_reentry() -> Numbers:
    """Compare layers that are recomputed with use_reentrant=False and plain ones."""
    return {"plain": measure_training(Layers(False)), "checkpoint": measure_training(Layers(True))}


def compile_checkpoint() -> Numbers:
    """Compare checkpointed layers, compiled and eager."""
    model = Layers(True)
    return {"eager": measure_training(model), "compiled": measure_training(torch.compile(model))}


class Block(nn.Module):
    """Attention over itself, over a context if there is one, and two matmuls with GELU between.

    Each after a norm.
    """

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.self_attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.cross_attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.matmuls = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        y = self.norms[0](x)
        x = x + self.self_attention(y, y, y, need_weights=False)[0]
        if context is not None:
            x = x + self.cross_attention(self.norms[1](x), context, context, need_weights=False)[0]
        return x + self.matmuls(self.norms[2](x))


class Twice(nn.Module):
    """The same blocks twice in a step, without and with a context, every block recomputed.

    Perhaps in two graphs.
    """

    def __init__(self, two_graphs: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH // 2))
        self.two_graphs = two_graphs

    def traverse(self, x: Tensor, context: Tensor | None) -> Tensor:
        """Run all blocks."""
        for block in self.blocks:
            x = checkpoint(block, x, context, use_reentrant=False)
        return x

    def forward(self, x: Tensor) -> Tensor:
        first = self.traverse(x, None)
        if self.two_graphs:
            torch._dynamo.graph_break()
        return first.square().mean() + self.traverse(x, torch.ones_like(x)).square().mean()


def traverse_twice() -> Numbers:
    """Compare two passes through the same blocks: eager, compiled as one graph, and as two."""
    x = torch.randn(8, 128, WIDTH)
    together, apart = Twice(two_graphs=False), Twice(two_graphs=True)
    apart.load_state_dict(together.state_dict())
    models: dict[str, Callable[[Tensor], Tensor]] = {
        "eager": together,
        "compiled": torch.compile(together),
        "apart": torch.compile(apart),
    }
    return {name: measure_peak(lambda: model(x).backward()) for name, model in models.items()}  # noqa: B023


class Residual(nn.Module):
    """A 3x3 convolution with a skip, which is a 1x1 convolution or nothing."""

    def __init__(self, channels: int, convolved: bool) -> None:
        super().__init__()
        self.main = nn.Conv2d(channels, channels, 3, padding=1)
        self.skip = nn.Conv2d(channels, channels, 1) if convolved else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        skipped: Tensor = self.skip(x)
        return self.main(F.relu(x)) + skipped


@torch.no_grad()
def remove_convolutions() -> Numbers:
    """Compare networks whose skips are convolutions and nothing, each eager and compiled."""
    x = torch.randn(4, 16, 64, 64)
    peaks = {}
    for name, convolved in (("plain", False), ("convolved", True)):
        model = nn.Sequential(*(Residual(16, convolved) for _ in range(DEPTH))).eval()
        compiled = torch.compile(model)
        peaks[f"{name}_eager"] = measure_peak(lambda: model(x))  # noqa: B023
        peaks[name] = measure_peak(lambda: compiled(x))  # noqa: B023
        torch._dynamo.reset()
    return peaks


def add_one(x: Tensor) -> Tensor:
    """Return a tensor, increased by one."""
    return x + 1


@torch.no_grad()
def call_often() -> Numbers:
    """Return the bytes that Python holds for each call, in two halves, compiled and not."""
    x = torch.randn(9, 3840, dtype=torch.bfloat16)
    first, later = measure_calls(torch.compile(add_one), x)
    first_eager, later_eager = measure_calls(add_one, x)
    return {"first": first, "later": later, "first_eager": first_eager, "later_eager": later_eager}


def measure_calls(call: Callable[[Tensor], Tensor], x: Tensor) -> list[float]:
    """Return the bytes that Python holds for each of many calls, in two halves."""
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
def measure_compiler() -> Numbers:
    """Return resident memory after eager inferences, and after compiled ones."""
    model, x = nn.Sequential(*(Block() for _ in range(4))).eval(), torch.randn(1, 64, WIDTH)
    for _ in range(3):
        model(x)
    eager = read_status("VmRSS")
    compiled = torch.compile(model)  # loads the compiler, so not before
    for _ in range(3):
        compiled(x)
    return {"eager": float(eager), "compiled": float(read_status("VmRSS"))}


@torch.no_grad()
def convolve_with_stride() -> Numbers:
    """Return the error of a strided 3-D convolution in bfloat16 against float64."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 16, 9, 9, 3, generator=generator)
    weight = torch.randn(16, 16, 3, 3, 3, generator=generator)
    right = F.conv3d(x.double(), weight.double(), stride=3)
    rounded = F.conv3d(x.bfloat16(), weight.bfloat16(), stride=3).double()
    return {"relative_error": float((rounded - right).norm() / right.norm())}


@torch.no_grad()
def sum_ones() -> Numbers:
    """Return what a convolution of four ones in bfloat16 is."""
    ones = torch.ones(1, 1, 2, 2, dtype=torch.bfloat16)
    return {"found": float(F.conv2d(ones, ones))}


class Dropping(nn.Module):
    """A matmul, and dropout of its hyperbolic tangent, added to the input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.matmul, self.dropout = nn.Linear(width, width), nn.Dropout()

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = self.dropout(self.matmul(x).tanh())
        return x + added


def recompute_dropout() -> Numbers:
    """Return the errors of gradients under three memory budgets."""
    budgets = {"nothing": 0.0, "half": 0.5, "whole": 1.0}
    return {name: compare_with_slope(budget) for name, budget in budgets.items()}


def compare_with_slope(budget: float) -> float:
    """Return the relative error of a compiled gradient's length against the loss's slope.

    The slope is that of small steps forward and back, with the same seed.
    """
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, x = nn.Sequential(*(Dropping(16) for _ in range(4))), torch.randn(4096, 16)
    compiled, weights = torch.compile(model), list(model.parameters())

    def compute_loss() -> Tensor:
        torch.manual_seed(1)
        loss: Tensor = compiled(x).square().mean()
        return loss

    with torch._functorch.config.patch(activation_memory_budget=budget):
        gradients = torch.autograd.grad(compute_loss(), weights)
        length = float(torch.stack([gradient.norm() for gradient in gradients]).norm())
        losses = []
        for step in (STEP, -2 * STEP):
            with torch.no_grad():
                for weight, gradient in zip(weights, gradients, strict=True):
                    weight.add_(gradient, alpha=step / length)
            losses.append(float(compute_loss().detach()))
    slope = (losses[0] - losses[1]) / (2 * STEP)
    return abs(length / slope - 1)


REPORTS: dict[str, Callable[[], Numbers]] = {
    "77284": checkpoint_without_reentry,
    "105768": remove_convolutions,
    "120381": compile_checkpoint,
    "163347": sum_ones,
    "167199": measure_compiler,
    "169688": convolve_with_stride,
    "174468": call_often,
    "190758": recompute_dropout,
    "193193": traverse_twice,
}

if __name__ == "__main__":
    print(json.dumps(REPORTS[sys.argv[1]]()))
