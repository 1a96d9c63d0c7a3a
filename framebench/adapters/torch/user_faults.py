"""What PyTorch is known to compute wrong in users' models. A small program tries it, since it depends on the release."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

ROWS, WIDTH, DEPTH = 4096, 16, 4
BUDGET = 0.5  # of the activations, as the strategy has it
OTHER_MASK = 1e-3  # relative error of a gradient in float32: rounding explains less


def explain_wrong_gradients(adapter: Any, wrong: list[str]) -> str | None:
    """Why a step of this model is wrong, where it is known; else None. `wrong`: the weights whose gradient came out so, each of
    which a fault in them must explain."""
    causes = [adapter.explain_wrong_tensors([name]) for name in wrong]
    if causes and all(causes):
        return str(causes[0])
    if adapter.process.activation_budget < 1 and adapter.draws_random_numbers() and (why := of_masks()):
        return why
    how = [part.how for part in adapter.case.parts]
    if (
        "checkpoint_dots" in how
        and any(isinstance(m, nn.GRU | nn.GRUCell) for m in adapter.model.modules())
        and (why := of_gates())
    ):
        return why
    compiled = any(name.startswith("compile") for name in how)
    return of_interpolation() if compiled and adapter.case.plan.precision == "bf16" and interpolates(adapter.one_step) else None


def of_gates() -> str | None:
    """Whether a GRU changes a product in place that selective checkpointing saves, without its check noticing."""
    if (off := gates_off_by()) < OTHER_MASK:
        return None
    return (
        f"PyTorch {torch.__version__} changes a product of its GRU in place, which selective checkpointing has saved, and does "
        f"not notice (docs/try.md). In a small trial gradients are off by {off:.0%}"
    )


@cache
def gates_off_by() -> float:
    """The relative error of a GRU cell's gradients where its products are saved and the rest is computed again."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        cell, x = nn.GRUCell(WIDTH, WIDTH), torch.randn(WIDTH, WIDTH, requires_grad=True)
    saved = partial(create_selective_checkpoint_contexts, [torch.ops.aten.addmm.default])
    right = _gradient(cell, cell, x)
    found = _gradient(partial(checkpoint, cell, use_reentrant=False, context_fn=saved), cell, x)
    return float((found - right).norm() / right.norm())


def interpolates(step: Callable[[], object]) -> bool:
    """Whether it calls PyTorch's `interpolate`, seen in one more step, in which nothing is compiled."""
    seen = []

    class Watching(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func is nn.functional.interpolate)
            return func(*args, **kwargs or {})

    with torch.compiler.set_stance("force_eager"), Watching():
        step()
    return any(seen)


def of_interpolation() -> str | None:
    """Whether a compiled step loses the gradients below an interpolation in bfloat16 (docs/try.md)."""
    right, found = (gradient_below(compiled) for compiled in (False, True))
    if found > right / 2:
        return None
    return (
        f"PyTorch {torch.__version__} loses gradients below `interpolate` in a compiled step in bfloat16 (docs/try.md). In a "
        f"small trial the gradient's norm is {found:.3g}, and {right:.3g} where nothing is compiled"
    )


@cache
def gradient_below(compiled: bool) -> float:
    """The norm of the gradient of a convolution below an interpolation, in bfloat16's autocast."""
    torch._dynamo.reset()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        first, x = nn.Conv2d(3, 8, 1, 4), torch.randn(2, 3, 32, 32)
        model = nn.Sequential(first, nn.Upsample(16), nn.Conv2d(8, 8, 1))
    with torch.autocast("cpu", torch.bfloat16):
        output = (torch.compile(model) if compiled else model)(x)
    output.float().square().mean().backward()
    torch._dynamo.reset()
    return 0.0 if first.weight.grad is None else float(first.weight.grad.norm())


def of_masks() -> str | None:
    """Whether a compiled step that may keep only a part of its activations draws random numbers anew where it computes them
    again (https://github.com/pytorch/pytorch/issues/190758)."""
    if (off := masks_off_by(BUDGET)) < OTHER_MASK:
        return None
    return (
        f"PyTorch {torch.__version__} draws random numbers anew where activation_memory_budget has them computed again: "
        f"dropout has another mask in the backward pass (pytorch issue 190758). In a small trial gradients are off by {off:.0%}"
    )


@cache
def masks_off_by(budget: float) -> float:
    """The relative error of the gradients of a few blocks with dropout, compiled under this memory budget, against eager ones
    that draw the same numbers."""
    import torch._functorch.config
    import torch._inductor.config

    torch._dynamo.reset()
    with (
        torch.random.fork_rng(devices=[]),
        torch._functorch.config.patch(activation_memory_budget=budget),
        torch._inductor.config.patch(fallback_random=True),
    ):
        torch.manual_seed(0)
        model, x = nn.Sequential(*(Block() for _ in range(DEPTH))), torch.randn(ROWS, WIDTH)
        right, found = _gradient(model, model, x), _gradient(torch.compile(model), model, x)
    torch._dynamo.reset()
    return float((found - right).norm() / right.norm())


class Block(nn.Module):
    """A product, and dropout of its hyperbolic tangent, beside what goes in."""

    def __init__(self) -> None:
        super().__init__()
        self.product, self.dropout = nn.Linear(WIDTH, WIDTH), nn.Dropout()

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = self.dropout(self.product(x).tanh())
        return x + added


def _gradient(run: Any, model: nn.Module, x: Tensor) -> Tensor:
    model.zero_grad()
    torch.manual_seed(1)
    run(x).square().mean().backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
