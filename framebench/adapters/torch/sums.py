"""Find out how much of a step's error comes from sums in 16 bits.

Autocast casts a weight once in a forward pass, and every layer that uses the weight gets the same
cast. In the backward pass the gradients of all uses are then added up in the narrow type, one after
the other. With k uses that takes k - 1 roundings, and each term is rounded, too. So the sum may be
off by k roundoffs of the terms' absolute sum (Higham, Accuracy and Stability of Numerical
Algorithms, 2002, section 4.2). If the terms are alike, as those of a decoder's steps are, each
rounding goes the same way, and perturbed weights hardly change that.

Without its cache autocast casts the weight for each use. The forward pass then computes the same
numbers, and the gradients are added up in float32, the type of the weight. What differs between the
two steps is the error of the sums.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from framebench.adapters.base import Result
from framebench.adapters.torch.choices import PRECISIONS
from framebench.adapters.torch.modes import OperatorMode, name_operator


class CountedCasts(OperatorMode):
    """Context that counts how often each weight is cast to another type."""

    def __init__(self, weights: list[nn.Parameter]) -> None:
        """Begin without a cast of these weights."""
        super().__init__()
        self.weights = {id(weight) for weight in weights}
        self.counts: Counter[int] = Counter()

    def run_operator(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator, and count it if it casts a weight."""
        if name_operator(func) == "_to_copy" and id(args[0]) in self.weights:
            self.counts[id(args[0])] += 1
        return func(*args, **kwargs)


@contextmanager
def cast_for_each_use() -> Iterator[None]:
    """Let autocast cast a weight for each use, in contexts of it that are entered in this one."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


def repeat_with_exact_sums(
    adapter: Any, make_steps: Callable[[], Result]
) -> tuple[Result, int] | None:
    """Repeat steps under autocast with sums of gradients in float32.

    Args:
        adapter: The case.
        make_steps: Makes the steps from the first weights on, and returns what is observed.

    Returns:
        What is observed in the steps, and how often a step uses the weight that is used most. With
        recomputation a use may count twice. None where no weight is used twice, where a step has no
        backward pass, and where the case is compiled or not under autocast.
    """
    strategy = adapter.case.strategy_spec
    is_under_autocast = strategy.precision in PRECISIONS and not strategy.compiles
    if not is_under_autocast or not adapter.case.scenario_spec.trains:
        return None
    with cast_for_each_use(), CountedCasts(adapter.parameters()) as casts:
        result = make_steps()
    steps = adapter.steps - adapter.restored_at
    uses = math.ceil(max(casts.counts.values(), default=0) / steps)
    return (result, uses) if uses > 1 else None
