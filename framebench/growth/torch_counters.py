"""What PyTorch counts while steps are made, for `growth/worker.py`."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from framebench.adapters.torch.adapter import TorchAdapter
from framebench.adapters.torch.observe import count_graph_nodes
from framebench.growth.leak_report import Program, Storages, caller, has_storage


def live(adapter: TorchAdapter) -> dict[str, Callable[[], int]]:
    """A GPU's allocator keeps count, and so does that of pinned memory; on the CPU tensors are malloc's."""
    return gpu_meters() if adapter.read_peaks() else {}


def gpu_meters() -> dict[str, Callable[[], int]]:
    """Tensors on the GPU, and pages of the host that it reads by itself."""
    if not torch.cuda.is_available():
        return {}
    pinned = getattr(torch.cuda, "host_memory_stats", None)  # since PyTorch 2.6
    meters = {"allocator.live": lambda: int(torch.cuda.memory_stats().get("allocated_bytes.all.current", 0))}
    return meters | ({"allocator.pinned": lambda: int(pinned().get("allocated_bytes.current", 0))} if pinned else {})


def counters(adapter: TorchAdapter, programs: list[Program]) -> dict[str, Callable[[], int]]:
    """What else can pile up, by name."""
    if not any(part.how in ("compile", "compile_step") for part in adapter.case.parts):
        return {}
    from torch._dynamo.utils import counters as counted

    return {"compiled programs": lambda: int(counted["stats"]["unique_graphs"])}


def watch_compilations() -> list[Program]:
    """Dynamo counts graphs, and names none."""
    return []


def storages() -> Storages:
    return TorchStorages()


class TorchStorages(TorchDispatchMode, Storages):  # type: ignore[misc]  # the mode enters and leaves
    """Notes every storage when an operator first returns it."""

    def __init__(self) -> None:
        super().__init__()
        torch._dynamo.list_backends()  # imported, as the first step in a mode does: while it is traced that takes minutes
        self.made: dict[int, tuple[weakref.ref[Any], str, str, int]] = {}  # itself, operator, place, bytes; by address
        self.before = {t.untyped_storage()._cdata for t in gc.get_objects() if has_storage(type(t))}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                self.born(tensor.untyped_storage(), func._schema.name.removeprefix("aten::"))
        return out

    def born(self, storage: Any, operator: str) -> None:
        earlier_entry = self.made.get(key := storage._cdata)
        if key not in self.before and (earlier_entry is None or earlier_entry[0]() is None):
            self.made[key] = weakref.ref(storage), operator, caller(sys._getframe(2)), storage.nbytes()

    def alive(self) -> list[tuple[str, str, int]]:
        return [(what, where, total) for storage, what, where, total in self.made.values() if storage() is not None]

    def about(self, thing: Any) -> str:
        return "" if getattr(thing, "grad_fn", None) is None else f"with a graph of {count_graph_nodes(thing)} operations"
