"""CUDA's lists of `torch.autocast` for the simulated device, and its cache of cast weights.

The lists are read from the header that PyTorch ships (`AT_FORALL_...` in ATen/autocast_mode.h), so
they are those of the release that runs. They are applied as by `cached_cast` and `WrapFunction_` in
ATen/autocast_mode.cpp and .h: weights (float32 leaves that are no views) are cast once until the
outermost context is left.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey, DispatchKeySet
from torch.utils._pytree import tree_leaves, tree_map_only

from framebench.devices.simulation.torch_device import NAME, is_on_gpu

HEADER = Path(torch.__file__).parent / "include/ATen/autocast_mode.h"
# by id: the weight, kept alive so that its id is not reused, and what it was cast to
CAST_WEIGHTS: dict[int, tuple[Tensor, Tensor]] = {}
POLICIES = ("LOWER_PRECISION_FP", "FP32", "FP32_SET_OPT_DTYPE", "PROMOTE")
KEY = "AutocastPrivateUse1"
KEYS = DispatchKeySet(getattr(DispatchKey, KEY))


def list_operators(policy: str) -> Iterator[Any]:
    """Yield the overloads in one of the header's lists."""
    body = re.search(rf"#define AT_FORALL_{policy}\(_\)((?:.*\\\n)*.*\n)", HEADER.read_text())
    assert body, policy
    for name, listed_overload in re.findall(r"_\((\w+)(?:, (\w+))?\)", body[1]):
        operator = getattr(torch.ops.aten, name)
        overload = listed_overload or "default"
        if overload in operator.overloads():
            yield getattr(operator, overload)


def can_cast(tensor: Tensor) -> bool:
    """Return whether autocast may change a tensor's type: floating, on the device, not float64."""
    return tensor.is_floating_point() and is_on_gpu(tensor) and tensor.dtype != torch.float64


def cast(value: Any, dtype: torch.dtype) -> Any:
    """Return a tree of values in which the tensors that autocast would convert have this type.

    A weight is converted once while autocast's cache is on (CAST_WEIGHTS), as in PyTorch.
    """

    def cast_one(tensor: Tensor) -> Tensor:
        """Return a tensor in the type of the policy; a weight's copy is made once."""
        if not can_cast(tensor) or tensor.dtype == dtype:
            return tensor
        is_weight = tensor.requires_grad and tensor.is_leaf and not tensor._is_view()
        is_cached = torch.is_autocast_cache_enabled() and dtype == torch.get_autocast_dtype(NAME)
        if tensor.dtype != torch.float32 or not (is_weight and is_cached):
            return tensor.to(dtype)
        if id(tensor) not in CAST_WEIGHTS:
            CAST_WEIGHTS[id(tensor)] = tensor, tensor.to(dtype)
        return CAST_WEIGHTS[id(tensor)][1]

    return tree_map_only(Tensor, cast_one, value)


def run_cast(policy: str, operator: Any, args: Any, kwargs: Any) -> Any:
    """Run an operator, its arguments cast by a policy: the name of one of the header's lists."""
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    if policy == "FP32_SET_OPT_DTYPE":
        return run_with_wide_result(operator, args, kwargs, may_cast=can_cast(tensors[0]))
    # PROMOTE: float32 if any tensor is, else the lower type (`promote_type`)
    has_float32 = any(tensor.dtype == torch.float32 for tensor in tensors)
    if policy == "FP32" or (policy == "PROMOTE" and has_float32):
        dtype = torch.float32
    else:
        dtype = torch.get_autocast_dtype(NAME)
    return operator(*cast(args, dtype), **cast(kwargs, dtype))


def run_with_wide_result(operator: Any, args: Any, kwargs: Any, may_cast: bool) -> Any:
    """Run an operator that reads half precision and writes float32, unless it is told otherwise."""
    names = [argument.name for argument in operator._schema.arguments]
    position = names.index("dtype")
    requested = args[position] if len(args) > position else kwargs.get("dtype")
    if requested is None and may_cast:
        return operator(*args[:position], **kwargs | {"dtype": torch.float32})
    return operator(*args, **kwargs)


@cache
def register() -> tuple[torch.library.Library, ...]:
    """Put the policies under the device's autocast key. They hold for the rest of the process."""
    library = torch.library.Library("aten", "IMPL")
    others = torch.library.Library("_", "IMPL")
    others.fallback(torch.library.fallthrough_kernel, KEY)
    for policy in POLICIES:
        for operator in list_operators(policy):
            full_name = operator._schema.name.removeprefix("aten::")
            if operator._schema.overload_name:
                full_name += f".{operator._schema.overload_name}"
            library.impl(full_name, make_kernel(operator, policy), KEY)
    return library, others


def make_kernel(operator: Any, policy: str) -> Callable[..., Any]:
    """Return a function that casts an operator's arguments as a policy says, and calls it."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(KEYS):
            return run_cast(policy, operator, args, kwargs)

    return kernel
