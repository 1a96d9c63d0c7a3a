"""What PyTorch is known to compute wrong where a model draws random numbers, as users' do. A small program tries it, since it
depends on the release."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

ROWS, WIDTH, DEPTH = 4096, 16, 4
BUDGET = 0.5  # of the activations, as the strategy has it
OTHER_MASK = 1e-3  # relative error of a gradient in float32: rounding explains less


def cause(adapter: Any) -> str | None:
    """Why a step of this model is wrong, where it is known; else None."""
    return of_masks() if adapter.process.activation_budget < 1 and adapter.draws() else None


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
