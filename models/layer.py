"""What a workload's `layers` are made of: what lower bounds and a step's operations are counted from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Switches = Mapping[str, Mapping[str, Any]]  # a strategy's switches with their options, which may change what a layer keeps


@dataclass(frozen=True)
class Layer:
    """What one layer needs again in the backward pass: `elements` per sample. Owns the weights whose names begin so."""

    name: str
    elements: int
    output: int = 0  # of a product: elements of its result, which exists together with its input
    border: bool = False  # the input of a block: checkpointing keeps it
    transposed: bool = False  # a convolution whose weight is (in, out, kernel...), and whose stride is as large as its kernel
    flops: int = 0  # per sample, beside those of its weight: products of activations, as in attention

    @cached_property
    def block(self) -> str:
        """`layer1.0` of `layer1.0.conv1`; empty outside the blocks that checkpointing recomputes."""
        head, _, tail = self.name.partition(".")
        index, _, rest = tail.partition(".")
        return f"{head}.{index}" if rest else ""
