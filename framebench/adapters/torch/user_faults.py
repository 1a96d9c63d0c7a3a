"""Try what PyTorch is known to compute wrong in users' models.

A small program tries each fault on this machine, since it depends on the release.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

ROWS = 4096
WIDTH = 16
DEPTH = 4
BUDGET = 0.5  # of the activations, as the strategy has it
# Relative error of a gradient in float32 that is wrong; rounding explains less.
WRONG_GRADIENT = 1e-3


def explain_wrong_gradients(adapter: Any, wrong: list[str]) -> str | None:
    """Return PyTorch's fault that makes a step of this model wrong, if one is known.

    `wrong` are the weights whose gradient came out wrong; a fault in them must explain each.
    """
    causes = [adapter.explain_wrong_tensors([name]) for name in wrong]
    if causes and all(causes):
        return str(causes[0])
    switches = [part.how for part in adapter.case.parts]
    fault = None
    if adapter.process.activation_budget < 1 and adapter.draws_random_numbers():
        fault = find_mask_fault()
    if fault is None and "checkpoint_dots" in switches and has_gru(adapter.model):
        fault = find_gru_fault()
    is_compiled = any(name.startswith("compile") for name in switches)
    may_lose_gradients = is_compiled and adapter.case.plan.precision == "bf16"
    if fault is None and may_lose_gradients and interpolates(adapter.one_step):
        fault = find_interpolation_fault()
    return fault


def has_gru(model: nn.Module) -> bool:
    """Return whether a model has a GRU."""
    return any(isinstance(module, nn.GRU | nn.GRUCell) for module in model.modules())


def find_gru_fault() -> str | None:
    """Return a fault of GRUs under selective checkpointing, if this PyTorch has it.

    A GRU changes a matmul's result in place that was saved, and the check does not notice.
    """
    error = measure_gru()
    if error < WRONG_GRADIENT:
        return None
    return (
        f"PyTorch {torch.__version__} changes a product of its GRU in place, which selective "
        f"checkpointing has saved, and does not notice (docs/try.md). In a small trial gradients "
        f"are off by {error:.0%}"
    )


@cache
def measure_gru() -> float:
    """Return the relative error of a GRU cell's gradients under selective checkpointing."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        cell = nn.GRUCell(WIDTH, WIDTH)
        x = torch.randn(WIDTH, WIDTH, requires_grad=True)
    saved = [torch.ops.aten.addmm.default]
    contexts = partial(create_selective_checkpoint_contexts, saved)
    recomputed = partial(checkpoint, cell, use_reentrant=False, context_fn=contexts)
    right = _compute_gradient(cell, cell, x)
    return _measure_error(_compute_gradient(recomputed, cell, x), right)


def interpolates(step: Callable[[], object]) -> bool:
    """Run one more step, in which nothing is compiled, and return if it calls `interpolate`."""
    is_called = False

    class Watching(TorchFunctionMode):
        """A context that notices calls of `interpolate`."""

        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            nonlocal is_called
            if func is nn.functional.interpolate:
                is_called = True
            return func(*args, **(kwargs or {}))

    with torch.compiler.set_stance("force_eager"), Watching():
        step()
    return is_called


def find_interpolation_fault() -> str | None:
    """Return a fault of compiled steps in bfloat16, if this PyTorch has it.

    Such a step loses the gradients below an interpolation (docs/try.md).
    """
    right = measure_gradient_below(compiled=False)
    found = measure_gradient_below(compiled=True)
    if found > right / 2:
        return None
    return (
        f"PyTorch {torch.__version__} loses gradients below `interpolate` in a compiled step in "
        f"bfloat16 (docs/try.md). In a small trial the gradient's norm is {found:.3g}, and "
        f"{right:.3g} where nothing is compiled"
    )


@cache
def measure_gradient_below(compiled: bool) -> float:
    """Return the norm of the gradient of a convolution below an interpolation, under autocast."""
    torch._dynamo.reset()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        first = nn.Conv2d(3, 8, 1, 4)
        x = torch.randn(2, 3, 32, 32)
        model: Any = nn.Sequential(first, nn.Upsample(16), nn.Conv2d(8, 8, 1))
    if compiled:
        model = torch.compile(model)
    with torch.autocast("cpu", torch.bfloat16):
        output = model(x)
    output.float().square().mean().backward()
    torch._dynamo.reset()
    return 0.0 if first.weight.grad is None else float(first.weight.grad.norm())


def find_mask_fault() -> str | None:
    """Return a fault of compiled steps under a memory budget, if this PyTorch has it.

    Such a step draws other random numbers where it computes activations again
    (https://github.com/pytorch/pytorch/issues/190758).
    """
    error = measure_masks(BUDGET)
    if error < WRONG_GRADIENT:
        return None
    return (
        f"PyTorch {torch.__version__} draws random numbers anew where activation_memory_budget has "
        f"them computed again: dropout has another mask in the backward pass (pytorch issue "
        f"190758). In a small trial gradients are off by {error:.0%}"
    )


@cache
def measure_masks(budget: float) -> float:
    """Return the relative error of the gradients of compiled blocks with dropout.

    They are compiled under a memory budget, and compared with eager ones that draw the same
    numbers.
    """
    import torch._functorch.config
    import torch._inductor.config

    torch._dynamo.reset()
    with (
        torch.random.fork_rng(devices=[]),
        torch._functorch.config.patch(activation_memory_budget=budget),
        torch._inductor.config.patch(fallback_random=True),
    ):
        torch.manual_seed(0)
        model = nn.Sequential(*(DropoutBlock() for _ in range(DEPTH)))
        x = torch.randn(ROWS, WIDTH)
        right = _compute_gradient(model, model, x)
        found = _compute_gradient(torch.compile(model), model, x)
    torch._dynamo.reset()
    return _measure_error(found, right)


class DropoutBlock(nn.Module):
    """A residual block: a matmul, its hyperbolic tangent, and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout()

    def forward(self, x: Tensor) -> Tensor:
        residual: Tensor = self.dropout(self.linear(x).tanh())
        return x + residual


def _compute_gradient(run: Any, model: nn.Module, x: Tensor) -> Tensor:
    """Return all gradients of a model as one vector, where `run` calls the model."""
    model.zero_grad()
    torch.manual_seed(1)
    run(x).square().mean().backward()
    gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return torch.cat(gradients)


def _measure_error(found: Tensor, right: Tensor) -> float:
    return float((found - right).norm() / right.norm())
