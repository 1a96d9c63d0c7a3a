"""Batch norm in a block that checkpointing computes a second time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


@contextmanager
def frozen_statistics(norms: Sequence[Any]) -> Iterator[None]:
    """Keep running statistics as they are, since the first forward pass has moved them already.

    The norms still normalise by the statistics of the batch.
    """
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in zip(norms, momenta):
            norm.momentum = momentum
