"""What PyTorch counts while steps are made, for `worker.py`."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from framebench.adapters.torch.adapter import TorchAdapter
from framebench.adapters.torch.observe import count_graph_nodes
from framebench.growth.leak_report import (
    LiveStorage,
    Program,
    StorageTracker,
    find_caller,
    has_storage,
)
from framebench.growth.meters import Meter


def make_allocator_meters(adapter: TorchAdapter) -> dict[str, Meter]:
    """Return the meters of a GPU's allocators; on the CPU there are none, as tensors are
    malloc's.
    """
    return make_gpu_meters() if adapter.read_peaks() else {}


def make_gpu_meters() -> dict[str, Meter]:
    """Return the meters of tensors on the GPU, and of the host's pages that it reads by itself."""
    if not torch.cuda.is_available():
        return {}

    def read_live() -> int:
        return int(torch.cuda.memory_stats().get("allocated_bytes.all.current", 0))

    def read_pinned() -> int:
        return int(torch.cuda.host_memory_stats().get("allocated_bytes.current", 0))

    meters: dict[str, Meter] = {"allocator.live": read_live}
    if hasattr(torch.cuda, "host_memory_stats"):  # since PyTorch 2.6
        meters["allocator.pinned"] = read_pinned
    return meters


def make_count_meters(adapter: TorchAdapter, programs: list[Program]) -> dict[str, Meter]:
    """Return the meters of what else can pile up, by name."""
    if not any(part.how in ("compile", "compile_step") for part in adapter.case.parts):
        return {}
    from torch._dynamo.utils import counters

    def count_programs() -> int:
        return int(counters["stats"]["unique_graphs"])

    return {"compiled programs": count_programs}


def watch_compilations() -> list[Program]:
    """Return no programs: Dynamo counts graphs, and names none."""
    return []


def make_tracker() -> StorageTracker:
    """Return a tracker of all storages."""
    return TorchStorages()


class TracedStorage(NamedTuple):
    """A storage that an operator made."""

    reference: weakref.ref[torch.UntypedStorage]
    operator: str
    made_at: str  # file:line
    bytes: int


class TorchStorages(TorchDispatchMode, StorageTracker):  # type: ignore[misc]  # the mode enters and leaves
    """Notes every storage when an operator first returns it."""

    def __init__(self) -> None:
        super().__init__()
        # imports what the first step in a mode imports: while memory is traced that takes minutes
        torch._dynamo.list_backends()
        self.made: dict[int, TracedStorage] = {}  # by address
        tensors = [thing for thing in gc.get_objects() if has_storage(type(thing))]
        self.made_before = {tensor.untyped_storage()._cdata for tensor in tensors}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                self.add(tensor.untyped_storage(), func._schema.name.removeprefix("aten::"))
        return out

    def add(self, storage: torch.UntypedStorage, operator: str) -> None:
        """Note a storage, unless it has been there before.

        The address of one that was dropped is given out again: only a reference tells them apart.
        """
        address = storage._cdata
        earlier = self.made.get(address)
        is_known = earlier is not None and earlier.reference() is not None
        if address not in self.made_before and not is_known:
            made_at = find_caller(sys._getframe(2))  # above this method and __torch_dispatch__
            self.made[address] = TracedStorage(
                weakref.ref(storage), operator, made_at, storage.nbytes()
            )

    def list_alive(self) -> list[LiveStorage]:
        """Return what operators have made and nobody has dropped."""
        alive = [storage for storage in self.made.values() if storage.reference() is not None]
        return [LiveStorage(storage.operator, storage.made_at, storage.bytes) for storage in alive]

    def describe(self, thing: Any) -> str:
        """Return how large the graph is that a tensor keeps alive."""
        if getattr(thing, "grad_fn", None) is None:
            return ""
        return f"with a graph of {count_graph_nodes(thing)} operations"
