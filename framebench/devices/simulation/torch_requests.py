"""Requests that a kernel makes for memory: bytes, positive where taken, negative where given back.

What is taken last is given back first. It imports no framework.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def take_and_return(*sizes: int) -> Iterator[int]:
    """Yield the requests for memory that is alive at once and then given back."""
    yield from sizes
    yield from give_back(sizes)


def give_back(sizes: Sequence[int]) -> Iterator[int]:
    """Yield the requests that give back what was taken in this order."""
    for size in reversed(sizes):
        yield -size


def copy_unless_contiguous(tensor: Tensor, order: torch.memory_format | None = None) -> list[int]:
    """Return the bytes of a copy in a memory format in a list, which is empty if none is made.

    Without a format the copy is contiguous.
    """
    options = {} if order is None else {"memory_format": order}
    return [] if tensor.is_contiguous(**options) else [tensor.nbytes]
