"""Define a layer: lower bounds and a step's operations are counted from a workload's layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

# a strategy's switches with their options, which may change what a layer keeps
Switches = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Layer:
    """The activations of one layer that its backward pass needs.

    The layer owns the weights whose names begin with its own.
    """

    name: str
    elements: int  # so many are needed again, per sample
    # of a matmul: elements of its result, which exists together with its input
    output: int = 0
    is_block_input: bool = False  # checkpointing keeps it
    # a convolution whose weight is (in, out, kernel...), and whose stride is as large as its kernel
    transposed: bool = False
    # per sample, besides those of its weight: matmuls of activations, as in attention
    flops: int = 0

    @cached_property
    def block(self) -> str:
        """Return `layer1.0` of `layer1.0.conv1`; empty outside of the blocks to recompute."""
        head, _, tail = self.name.partition(".")
        index, _, rest = tail.partition(".")
        return f"{head}.{index}" if rest else ""
