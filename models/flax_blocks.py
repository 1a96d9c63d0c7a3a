"""Say how the Flax models run their blocks: `remat(i, run)` gives the function for block number i.

Flax transforms functions of modules, so a model's `run_block(block, *inputs)` is what is wrapped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Run = Callable[..., Any]  # (block, *inputs) -> output
Remat = Callable[[int, Run], Run]


def recompute_nothing(i: int, run: Run) -> Run:
    """Return the function itself: no block is recomputed in the backward pass."""
    return run
