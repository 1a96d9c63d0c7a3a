"""Batch norm in a block that is computed a second time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


@contextmanager
def frozen_statistics(norms: Sequence[Any]) -> Iterator[None]:
    """They still normalise by the batch, but their running statistics stay: the first forward pass has moved them."""
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in zip(norms, momenta):
            norm.momentum = momentum
