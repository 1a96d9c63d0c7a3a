"""CUDA's lists of `torch.autocast` for the device without numbers, and its cache of cast weights.

The lists are read from the header that PyTorch ships (`AT_FORALL_...` in ATen/autocast_mode.h), so they are those of the
release that runs. What they do is `cached_cast` and `WrapFunction_` in ATen/autocast_mode.cpp and .h: weights (float32 leaves
that are no views) are cast once until the outermost context is left.
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

from framebench.devices.simulation.torch_device import NAME

HEADER = Path(torch.__file__).parent / "include/ATen/autocast_mode.h"
CAST: dict[int, tuple[Tensor, Tensor]] = {}  # the weight, which must outlive its key, and what it was cast to
KEY = DispatchKeySet(getattr(DispatchKey, "AutocastPrivateUse1"))  # noqa: B009, the stub does not know it


def listed(policy: str) -> Iterator[Any]:
    """The overloads in one of the header's lists."""
    body = re.search(rf"#define AT_FORALL_{policy}\(_\)((?:.*\\\n)*.*\n)", HEADER.read_text())
    assert body, policy
    for name, overload in re.findall(r"_\((\w+)(?:, (\w+))?\)", body[1]):
        operator = getattr(torch.ops.aten, name)
        if (overload or "default") in operator.overloads():
            yield getattr(operator, overload or "default")


def cast(value: Any, dtype: torch.dtype) -> Any:
    """Every floating tensor of the device that is no float64."""
    return tree_map_only(Tensor, lambda tensor: _cast_one(tensor, dtype), value)


def _cast_one(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    eligible = tensor.is_floating_point() and tensor.device.type == NAME and tensor.dtype != torch.float64
    if not eligible or tensor.dtype == dtype:
        return tensor
    is_weight = tensor.dtype == torch.float32 and tensor.requires_grad and tensor.is_leaf and not tensor._is_view()
    if not (is_weight and torch.is_autocast_cache_enabled() and dtype == torch.get_autocast_dtype(NAME)):
        return tensor.to(dtype)
    if id(tensor) not in CAST:
        CAST[id(tensor)] = tensor, tensor.to(dtype)
    return CAST[id(tensor)][1]


def forget() -> None:
    """What `torch.clear_autocast_cache` does when the outermost context is left."""
    CAST.clear()


def _lower(operator: Any, args: Any, named: Any) -> Any:
    dtype = torch.get_autocast_dtype(NAME)
    return operator(*cast(args, dtype), **cast(named, dtype))


def _single(operator: Any, args: Any, named: Any) -> Any:
    return operator(*cast(args, torch.float32), **cast(named, torch.float32))


def _single_output(operator: Any, args: Any, named: Any) -> Any:
    """The operator itself reads half precision and writes float32 (fp32_set_opt_dtype)."""
    position = [argument.name for argument in operator._schema.arguments].index("dtype")
    first = next(leaf for leaf in tree_leaves(args) if isinstance(leaf, Tensor))
    asked = named.get("dtype") if len(args) <= position else args[position]
    if asked is None and first.is_floating_point() and first.device.type == NAME and first.dtype != torch.float64:
        return operator(*args[:position], **named | {"dtype": torch.float32})
    return operator(*args, **named)


def _widest(operator: Any, args: Any, named: Any) -> Any:
    """`promote_type`: float32 if any tensor is, else the lower type."""
    tensors = [leaf for leaf in tree_leaves((args, named)) if isinstance(leaf, Tensor) and leaf.is_floating_point()]
    wide = any(t.dtype == torch.float32 for t in tensors)
    dtype = torch.float32 if wide else torch.get_autocast_dtype(NAME)
    return operator(*cast(args, dtype), **cast(named, dtype))


POLICIES = {"LOWER_PRECISION_FP": _lower, "FP32": _single, "FP32_SET_OPT_DTYPE": _single_output, "PROMOTE": _widest}


@cache
def register() -> tuple[torch.library.Library, ...]:
    """Puts the policies under the device's autocast key. They hold for the rest of the process."""
    library = torch.library.Library("aten", "IMPL")
    others = torch.library.Library("_", "IMPL")
    others.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    for policy, run in POLICIES.items():
        for operator in listed(policy):
            name = operator._schema.name.removeprefix("aten::")
            overload = operator._schema.overload_name
            library.impl(f"{name}.{overload}" if overload else name, _kernel(operator, run), "AutocastPrivateUse1")
    return library, others


def _kernel(operator: Any, run: Callable[[Any, Any, Any], Any]) -> Callable[..., Any]:
    def kernel(*args: Any, **named: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(KEY):
            return run(operator, args, named)

    return kernel
