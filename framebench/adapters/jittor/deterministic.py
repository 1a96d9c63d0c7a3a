"""Make a step of Jittor without randomness: each random draw is replaced by its mean.

Dropout then does nothing. Jittor draws all random numbers by `jt.random`. Kernels draw in the order
in which operators are fused, so two strategies would draw different numbers from the same seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import jittor as jt
from jittor import Module, Var, nn

from framebench.adapters.replacing import replace_attributes

DROPOUTS = (nn.Dropout, nn.Dropout2d, nn.DropPath)
MEANS = {"uniform": 0.5, "normal": 0.0}


@contextmanager
def replace_draws() -> Iterator[None]:
    """Replace each random draw of a step by its mean in this context."""

    def return_input(self: Module, x: Var) -> Var:
        return x

    with ExitStack() as stack:
        stack.enter_context(replace_attributes(jt, random=make_mean))
        for dropout in DROPOUTS:
            stack.enter_context(replace_attributes(dropout, execute=return_input))
        yield


def make_mean(shape: Any, dtype: str = "float32", type: str = "uniform") -> Var:
    """Return a variable filled with the mean of the numbers that `jt.random` would draw."""
    return jt.full(shape, MEANS[type], dtype)


def draws_random_numbers(step: Callable[[], object]) -> bool:
    """Return whether a step draws random numbers."""
    draw = jt.random
    draws = 0

    def count_and_draw(*arguments: Any, **options: Any) -> Var:
        nonlocal draws
        draws += 1
        return draw(*arguments, **options)

    with replace_attributes(jt, random=count_and_draw):
        step()
    return draws > 0
