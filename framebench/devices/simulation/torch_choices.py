"""Run operators whose results are as large as the values of a tensor say, such as `nonzero`.

Fake tensors have no values, so how many elements a program chooses is not known: a router of
experts, or the matches of a detector. The step can be run twice to bound its memory: as if every
element were chosen, and as if none were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from framebench.devices.simulation.scope import BY_TIMING

aten = torch.ops.aten
MASKS = (torch.bool, torch.uint8)
SPARSE = (
    "sparse tensors are not simulated: how many elements they have is decided by values, and "
    "tensors have none here. A dense matrix is, and index_add_ of rows that index_select takes"
)
# operators that take indices: the place of the indices among their arguments
TAKES_INDICES = {
    aten.index.Tensor: 1,
    aten.index_put.default: 1,
    aten.index_put_.default: 1,
    aten._index_put_impl_.default: 1,
}


class BoundedStep(NotImplementedError):
    """A step whose memory is decided by what is not known here, so that it can only be bounded.

    `why_least` and `why_most` say what the two bounds assume.
    """

    why_least: str
    why_most: str


class UnknownTiming(BoundedStep):
    """A step uses memory on another stream, so that what it reserves can only be bounded.

    `Tensor.record_stream` tells the allocator so. When the program drops the tensor, such as one
    that is copied to the host, its block stays taken until that stream is done, which the GPU
    decides. The step is run twice: as if the stream were done at once, and as if it were not
    before the step ends.
    """

    why_least = "its tensors, if each copy on another stream were done at once"
    why_most = (
        "what the allocator reserves, if no copy on another stream were done before the step ends, "
        "and all were then"
    )

    def __init__(self, line: str) -> None:
        """Remember the line of the program that records the stream; empty if none is known."""
        place = f" ({line})" if line else ""
        super().__init__(f"{BY_TIMING}{place}")


class UnknownChoice(BoundedStep):
    """A step chooses elements by their values, so that its memory can only be bounded."""

    why_least = "its tensors, if no element were chosen"
    why_most = "what the allocator reserves, if every element were chosen in each step"

    def __init__(self, line: str) -> None:
        """Remember the line of the program that chooses; empty if none is known."""
        place = f" ({line})" if line else ""
        super().__init__(
            f"how many elements the step chooses is decided by their values{place}, and tensors "
            "have none here"
        )


def find_nonzero(tensor: Tensor, is_chosen: bool) -> Tensor:
    """Return the indices of all elements, or of none, with a row for each."""
    rows = tensor.numel() if is_chosen else 0
    return torch.empty((rows, tensor.dim()), dtype=torch.int64, device=tensor.device)


def select_masked(tensor: Tensor, mask: Tensor, is_chosen: bool) -> Tensor:
    """Return as many elements as a mask has, or none."""
    elements = torch.broadcast_shapes(tensor.shape, mask.shape).numel() if is_chosen else 0
    return tensor.new_empty(elements)


def find_unique(
    tensor: Tensor, _is_sorted: bool, has_inverse: bool, has_counts: bool, is_chosen: bool
) -> tuple[Tensor, ...]:
    """Return as many values as a tensor has elements, or one; their places and counts."""
    count = tensor.numel() if is_chosen else min(1, tensor.numel())
    places = tensor.new_empty(tensor.shape if has_inverse else 0, dtype=torch.int64)
    counts = tensor.new_empty(count if has_counts else 0, dtype=torch.int64)
    return tensor.new_empty(count), places, counts


def pack_sequences(
    padded: Tensor, _lengths: Tensor, batch_first: bool, is_chosen: bool
) -> tuple[Tensor, Tensor]:
    """Return the rows of sequences that are all as long as the longest, or else of one step.

    A batch is padded to its longest sequence. The second tensor has the number of sequences of each
    step. PyTorch reads it from memory.
    """
    steps, sequences = padded.shape[:2]
    if batch_first:
        steps, sequences = sequences, steps
    later = sequences if is_chosen else 1
    sizes = [sequences] + [later] * (steps - 1)
    with _disable_current_modes():
        batch_sizes = torch.tensor(sizes)
    return padded.new_empty(sum(sizes), *padded.shape[2:]), batch_sizes


CHOOSES: dict[Any, Callable[..., Any]] = {
    aten.nonzero.default: find_nonzero,
    aten.masked_select.default: select_masked,
    aten._unique2.default: find_unique,
    aten._pack_padded_sequence.default: pack_sequences,
}


def has_mask(func: Any, args: Sequence[Any]) -> bool:
    """Return whether an operator takes a mask in the place of indices."""
    place = TAKES_INDICES.get(func)
    if place is None:
        return False
    return any(index is not None and index.dtype in MASKS for index in args[place])


def expand_masks(func: Any, args: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arguments with indices in the place of masks, as the GPU's operator makes them."""
    place = TAKES_INDICES[func]
    indices: list[Tensor | None] = []
    for index in args[place]:
        if index is not None and index.dtype in MASKS:
            indices += index.nonzero().unbind(1)
        else:
            indices.append(index)
    return (*args[:place], indices, *args[place + 1 :])
