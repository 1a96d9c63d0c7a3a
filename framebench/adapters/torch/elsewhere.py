"""What holds memory between two steps in PyTorch beside weights, gradients, states and inputs: `adapters/holders.py`."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor

from framebench.adapters.holders import Bytes, Root, find_array_storage
from framebench.adapters.torch.observe import parts

KNOWN = {"_parameters", "_buffers", "_modules", "forward", "remat", "bodies"}  # registered, or set by the harness


def addresses(tensors: Iterable[Tensor]) -> set[int]:
    return {part.untyped_storage().data_ptr() for tensor in tensors for part in parts(tensor)}


def storages(one: Any) -> Bytes:
    """Of a tensor, and of what its graph has saved for a backward pass; of an array."""
    if not issubclass(type(one), Tensor):
        return find_array_storage(one) if type(one).__module__ == "numpy" else {}
    if one.device.type != "cpu" or isinstance(one, FakeTensor):
        return {}
    found = [one, *([one.grad] if one.is_leaf and one.grad is not None else []), *saved(one)]
    here = (part.untyped_storage() for tensor in found for part in parts(tensor) if part.device.type == "cpu")
    try:
        return {storage.data_ptr(): storage.nbytes() for storage in here}
    except RuntimeError:  # a compiler's stand-in, without numbers
        return {}


def saved(tensor: Tensor) -> Iterator[Tensor]:
    """What the graph behind a tensor still keeps."""
    seen, ahead = set(), [tensor.grad_fn]
    while ahead:
        node = ahead.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        ahead += [following for following, _ in node.next_functions]
        yield from _saved_by(node)


def _saved_by(node: Any) -> Iterator[Tensor]:
    """As it was packed: to unpack it would compute a checkpointed block again."""
    for name in dir(node):
        if name.startswith("_raw_saved_"):
            raw = _unless_freed(node, name)
            for one in raw if isinstance(raw, tuple | list) else (raw,):
                packed = _unless_freed(one, "data")
                if isinstance(packed, Tensor):
                    yield packed


def _unless_freed(holder: Any, name: str) -> Any:
    try:
        return getattr(holder, name, None)
    except RuntimeError:  # a backward pass has freed it
        return None


def attributes(model: nn.Module) -> Iterator[Root]:
    """Those of the model's modules that it has not registered."""
    for name, module in model.named_modules():
        where = f"{name} ({type(module).__name__})" if name else "the model"
        for attribute, value in vars(module).items():
            if attribute not in KNOWN:
                yield f"the attribute `{attribute}` of {where}", value


def every_tensor() -> list[Tensor]:
    objects = gc.get_objects()
    kinds = {kind for kind in {*map(type, objects)} if issubclass(kind, Tensor)}  # a compiler's objects are a million
    return [one for one in objects if type(one) in kinds]
