"""A lower precision imitated in PyTorch's float32: every operation of the forward and the backward pass rounds at random."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "convolution", "_scaled_dot_product", "addmv", "mv", "dot", "_mkldnn", "mkldnn")
# What computes no number, by whole names: a result that was rounded before is not rounded again.
EXACT = {
    "detach", "clone", "copy", "_to_copy", "empty", "zeros", "ones", "full", "fill", "zero", "arange", "index", "index_select",
    "gather", "embedding", "cat", "stack", "where", "masked_fill", "relu", "threshold_backward", "neg", "constant_pad_nd",
    "max", "maximum", "max_pool2d_with_indices", "select_backward", "slice_backward", "lift_fresh", "_unsafe_view", "roll",
    "flip", "new_zeros", "zeros_like", "ones_like", "full_like", "empty_like", "new_empty", "new_full", "scalar_tensor",
}  # fmt: skip


@contextmanager
def imitated(adapter: Any, roundoff: float, seed: int) -> Iterator[None]:
    """In here the adapter's passes round so. Its update does not: optimizers stay in float32."""
    recipe, rounds = adapter.recipe, Rounds(roundoff, seed, adapter.where)
    contexts, backward = recipe.contexts, recipe.backward

    def rounded_backward(loss: Tensor) -> None:
        with rounds:
            backward(loss)

    recipe.contexts, recipe.backward = [*contexts, lambda: rounds], rounded_backward
    try:
        yield
    finally:
        recipe.contexts, recipe.backward = contexts, backward


class Rounds(TorchDispatchMode):
    """Moves results by random shares of their size: each number by its own, and all of one result by another, since numbers
    that are equal round alike. The draws are its own: the model's random numbers stay what they are."""

    def __init__(self, roundoff: float, seed: int, device: torch.device) -> None:
        super().__init__()
        self.roundoff, self.random = roundoff, torch.Generator(device).manual_seed(seed)

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = operator._schema.name.removeprefix("aten::")
        if name.startswith(PRODUCTS):
            args = tree_map(lambda a: self.moved(a.clone()) if floating(a) else a, args)
        result = operator(*args, **(kwargs or {}))
        exact = operator.is_view or name.removesuffix("_") in EXACT or torch.Tag.nondeterministic_seeded in operator.tags
        return result if exact else tree_map(lambda a: self.moved(a) if floating(a) else a, result)

    def moved(self, tensor: Tensor) -> Tensor:
        """In place."""
        shares = torch.empty_like(tensor, dtype=tensor.dtype.to_real()).uniform_(-1, 1, generator=self.random)
        alike = shares.new_empty(()).uniform_(-1, 1, generator=self.random)
        return tensor.mul_(shares.add_(alike).mul_(self.roundoff).add_(1))


def floating(tensor: Any) -> bool:
    dense = isinstance(tensor, Tensor) and tensor.layout == torch.strided
    return dense and (tensor.is_floating_point() or tensor.is_complex())
