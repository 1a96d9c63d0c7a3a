"""Batch norm in a block that checkpointing computes a second time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


@contextmanager
def freeze_statistics(norms: Sequence[Any]) -> Iterator[None]:
    """Freeze running statistics in this context; the norms still use those of the batch.

    The first forward pass of the block has updated them already.
    """
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in zip(norms, momenta):
            norm.momentum = momentum
