"""Find tensors that a user's program holds between two steps, besides those the harness knows.

The search by name is in `adapters/holders.py`, and its parts for PyTorch are here.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor

from framebench.adapters.holders import Root, StorageBytes, find_array_storage
from framebench.adapters.torch.observe import find_storages, iterate_graph

# attributes in which a module registers what it has, or that the harness has set
REGISTERED = {"_parameters", "_buffers", "_modules", "forward", "block_runner", "bodies"}


def find_host_storages(instance: Any) -> StorageBytes:
    """Return the host storages of a tensor or NumPy array, and none for any other object.

    For a tensor they include the storages of its gradient, and of what its graph has saved for a
    backward pass.
    """
    if not issubclass(type(instance), Tensor):
        return find_array_storage(instance) if type(instance).__module__ == "numpy" else {}
    if instance.device.type != "cpu" or isinstance(instance, FakeTensor):
        return {}
    tensors = [instance]
    if instance.is_leaf and instance.grad is not None:
        tensors.append(instance.grad)
    for node in iterate_graph(instance):
        tensors += iterate_saved(node)
    try:
        return find_storages(tensor for tensor in tensors if tensor.device.type == "cpu")
    except RuntimeError:  # a compiler's placeholder without numbers
        return {}


def iterate_saved(node: Any) -> Iterator[Tensor]:
    """Yield the tensors that a node of an autograd graph has saved, as hooks have packed them.

    Unpacking could compute a checkpointed block again.
    """
    for name in dir(node):
        if not name.startswith("_raw_saved_"):
            continue
        raw = _get_unless_freed(node, name)
        values = raw if isinstance(raw, tuple | list) else [raw]
        for value in values:
            packed = _get_unless_freed(value, "data")
            if isinstance(packed, Tensor):
                yield packed


def _get_unless_freed(holder: Any, name: str) -> Any:
    """Return an attribute of a node or of a saved tensor, or None if there is none."""
    try:
        return getattr(holder, name, None)
    except RuntimeError:  # a backward pass has freed it
        return None


def iterate_attributes(model: nn.Module) -> Iterator[Root]:
    """Yield the attributes of the model's modules that are not registered, as roots."""
    for name, module in model.named_modules():
        where = f"{name} ({type(module).__name__})" if name else "the model"
        for attribute, value in vars(module).items():
            if attribute not in REGISTERED:
                yield f"the attribute `{attribute}` of {where}", value


def list_all_tensors() -> list[Tensor]:
    """Return every tensor that Python's garbage collector tracks."""
    objects = gc.get_objects()
    # issubclass is called once for each class, since a compiler makes a million objects
    classes = {type(instance) for instance in objects}
    tensor_classes = {cls for cls in classes if issubclass(cls, Tensor)}
    return [instance for instance in objects if type(instance) in tensor_classes]


def read_mkl_bytes() -> int:
    """Return the bytes of the buffers that MKL keeps for its next matmuls.

    The number is 0 if PyTorch has no MKL.
    """
    if not torch.backends.mkl.is_available():
        return 0
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        mem_stat: Any = ctypes.CDLL(str(library)).mkl_serv_mem_stat
    except (OSError, AttributeError):
        return 0
    mem_stat.restype = ctypes.c_int64
    buffer_count = ctypes.c_int()
    return int(mem_stat(ctypes.byref(buffer_count)))
