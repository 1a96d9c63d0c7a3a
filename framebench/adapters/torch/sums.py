"""Find out how much of a step's error comes from sums of gradients in 16 bits.

What is used several times gets a gradient from each use, and autograd adds them up one after the
other, in the type of what is used. Autocast casts a weight once in a forward pass, and every layer
that uses the weight gets the same cast, of 16 bits. A layer's result has 16 bits too, and each step
of a decoder or of an integrator may use it. With k uses that takes k - 1 roundings, and each term
is rounded, too. So the sum may be off by k roundoffs of the terms' absolute sum (Higham, Accuracy
and Stability of Numerical Algorithms, 2002, section 4.2). If the terms are alike, as those of a
decoder's steps are, each rounding goes the same way, and perturbed weights hardly change that.

So the steps are repeated with sums in float32, each of which is rounded once. The forward pass is
the same. What differs between the two steps is the error of the sums.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from framebench.adapters.base import Result
from framebench.adapters.torch.choices import PRECISIONS
from framebench.adapters.torch.modes import OperatorMode, name_operator

NARROW = (torch.bfloat16, torch.float16)
SUM = "sum_in_float32"  # an attribute of a sum in 16 bits: the same in float32, and its terms


class ExactSums(OperatorMode):
    """Context in which autograd adds up gradients of 16 bits in float32.

    The attribute `most_terms` has the terms of the longest sum so far.
    """

    def __init__(self) -> None:
        """Begin without a sum."""
        super().__init__()
        self.most_terms = 1

    def run_operator(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator, exactly if it adds two gradients."""
        is_sum = name_operator(func) in ("add", "add_") and are_narrow(args)
        if not is_sum or not is_in_backward_pass():
            return func(*args, **kwargs)
        left, left_terms = read_sum(args[0])
        right, right_terms = read_sum(args[1])
        total, terms = left + right, left_terms + right_terms
        rounded = func(*args, **kwargs)
        rounded.copy_(total)
        setattr(rounded, SUM, (total, terms))
        self.most_terms = max(self.most_terms, terms)
        return rounded


def are_narrow(operands: Any) -> bool:
    """Return whether all operands are dense tensors of 16 bits."""
    return all(
        isinstance(operand, Tensor) and operand.dtype in NARROW and operand.layout == torch.strided
        for operand in operands
    )


def is_in_backward_pass() -> bool:
    """Return whether gradients are computed, and no checkpointed block is run again for them.

    Such a block records its operators, and gradients are computed without.
    """
    return torch._C._current_graph_task_id() != -1 and not torch.is_grad_enabled()


def read_sum(gradient: Tensor) -> tuple[Tensor, int]:
    """Return a gradient in float32, and of how many terms it is the sum."""
    total: tuple[Tensor, int] = getattr(gradient, SUM, (gradient.float(), 1))
    return total


def repeat_with_exact_sums(
    adapter: Any, make_steps: Callable[[], Result]
) -> tuple[Result, int] | None:
    """Repeat steps under autocast with sums of gradients in float32.

    Args:
        adapter: The case.
        make_steps: Makes the steps from the first weights on, and returns what is observed.

    Returns:
        What is observed in the steps, and how many gradients of 16 bits a sum has at most. None
        where none are added up, where a step has no backward pass, and where the case is compiled
        or not under autocast.
    """
    strategy = adapter.case.strategy_spec
    is_under_autocast = strategy.precision in PRECISIONS and not strategy.compiles
    if not is_under_autocast or not adapter.case.scenario_spec.trains:
        return None
    with ExactSums() as sums:
        result = make_steps()
    return (result, sums.most_terms) if sums.most_terms > 1 else None
