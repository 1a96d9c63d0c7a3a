"""A lower precision imitated in PyTorch's float32: operations of the forward and the backward pass round at random.

In float32 every operation does. In bfloat16 those do that autocast gives bfloat16: products, and what is computed of nothing
but their results and weights. A time that is embedded, a position or a running mean stays in float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "convolution", "_scaled_dot_product", "addmv", "mv", "dot", "_mkldnn", "mkldnn")
# What computes no number, by whole names: a result that was rounded before is not rounded again. And what picks one: its
# gradient goes to those that are equal to it.
EXACT = {
    "detach", "clone", "copy", "_to_copy", "empty", "zeros", "ones", "full", "fill", "zero", "arange", "index", "index_select",
    "gather", "embedding", "cat", "stack", "where", "masked_fill", "relu", "threshold_backward", "neg", "constant_pad_nd",
    "select_backward", "slice_backward", "lift_fresh", "_unsafe_view", "roll", "flip", "new_zeros", "zeros_like", "ones_like",
    "full_like", "empty_like", "new_empty", "new_full", "scalar_tensor", "abs", "sign", "round", "floor", "ceil", "repeat",
    "max", "min", "maximum", "minimum", "amax", "amin", "aminmax", "topk", "sort", "median", "kthvalue", "mode", "cummax",
    "clamp", "clamp_min", "clamp_max", "hardtanh", "leaky_relu", "max_pool2d_with_indices", "max_pool3d_with_indices",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "tril",
    "triu",
}  # fmt: skip


MARK = "framebench_rounded"  # an attribute of tensors that autocast would have in the lower precision
WIDEST = 2.0**-9  # roundoffs below it are not of a lower precision: all is rounded
POOL = 2**20  # numbers that are drawn for one result. A larger one has them again and again: drawing takes longest


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
        self.everywhere = roundoff < WIDEST
        self.buffers: dict[tuple[int, torch.dtype], Tensor] = {}

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = operator._schema.name.removeprefix("aten::")
        if name.startswith(PRODUCTS):
            place = count()
            args = tree_map(lambda a: self.moved(self.copied(a, next(place))) if floating(a) else a, args)
        rounds = self.everywhere or name.startswith(PRODUCTS) or of_rounded(name, args)
        result = operator(*args, **(kwargs or {}))
        exact = operator.is_view or name.removesuffix("_") in EXACT or torch.Tag.nondeterministic_seeded in operator.tags
        for tensor in filter(floating, tree_leaves(result)):
            if rounds and not exact:
                self.moved(tensor)
            setattr(tensor, MARK, rounds)
        return result

    def copied(self, tensor: Tensor, place: int) -> Tensor:
        """A large one where the last one at this place of an operation was: fresh memory takes longer than the product."""
        if tensor.numel() <= POOL or not in_order(tensor).is_contiguous():
            return tensor.clone()
        buffer = self.buffers.get((place, tensor.dtype))
        if buffer is None or buffer.numel() < tensor.numel():
            buffer = self.buffers[place, tensor.dtype] = tensor.new_empty(tensor.numel())
        return buffer.as_strided(tensor.shape, tensor.stride()).copy_(tensor)

    def moved(self, tensor: Tensor) -> Tensor:
        """In place."""
        if tensor.numel() > POOL and in_order(tensor).is_contiguous():
            factors, whole = self.factors(tensor.new_empty(POOL)), tensor.numel() // POOL * POOL
            flat = in_order(tensor).view(-1)
            flat[:whole].view(-1, POOL).mul_(factors)
            flat[whole:].mul_(factors[: tensor.numel() - whole])
            return tensor
        return tensor.mul_(self.factors(torch.empty_like(tensor)))

    def factors(self, like: Tensor) -> Tensor:
        # none of the model's draws, which a step without chance replaces by their mean
        with _disable_current_modes():
            shares = torch.empty_like(like, dtype=like.dtype.to_real()).uniform_(-1, 1, generator=self.random)
            alike = shares.new_empty(()).uniform_(-1, 1, generator=self.random)
        return shares.add_(alike).mul_(self.roundoff).add_(1)


def in_order(tensor: Tensor) -> Tensor:
    """Its axes as they lie in memory."""
    return tensor.permute(sorted(range(tensor.ndim), key=tensor.stride, reverse=True))


def of_rounded(name: str, args: Any) -> bool:
    """Whether an operation gets nothing wider than the lower precision; weights may be cast, as the bias of a layer is. Norms,
    whose factors are in float32, and backward functions, which get what the forward pass saved, give the precision of their
    first argument."""
    tensors = [a for a in tree_leaves(args) if floating(a) and a.ndim and not isinstance(a, nn.Parameter)]
    if "norm" in name or "backward" in name:
        tensors = tensors[:1]
    return bool(tensors) and all(getattr(a, MARK, False) for a in tensors)


def floating(tensor: Any) -> bool:
    dense = isinstance(tensor, Tensor) and tensor.layout == torch.strided
    return dense and (tensor.is_floating_point() or tensor.is_complex())
