"""How the Flax models run their blocks: `remat(i, run)` gives the function that runs block number i."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Run = Callable[..., Any]  # (block, *inputs) -> output
Remat = Callable[[int, Run], Run]


def as_it_is(i: int, run: Run) -> Run:
    """Nothing is recomputed in the backward pass."""
    return run
