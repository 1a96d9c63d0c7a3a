"""What PyTorch counts while steps are made, for `worker.py`."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from traceback import walk_stack
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch._dynamo.utils import counters
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from framebench.adapters.torch.observe import count_graph_nodes
from framebench.growth.leak_report import (
    USER_CODE,
    GrowingName,
    LiveStorage,
    Source,
    StorageTracker,
    find_caller,
    has_storage,
    rank_file,
    shorten_path,
)
from framebench.growth.meters import Meter
from framebench.growth.step_marks import FORWARD_PASSES


def make_byte_meters() -> dict[str, Meter]:
    """Return the meters of tensors on the GPU, and of the host's pages that it reads by itself.

    On the CPU there are no such meters, as malloc allocates the tensors.
    """
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


def make_count_meters(programs: list[Source]) -> dict[str, Meter]:
    """Return the meters of what else can pile up, by name."""

    def count_programs() -> int:
        return int(counters["stats"]["unique_graphs"])

    return {"compiled programs": count_programs}


def watch_compilations() -> list[Source]:
    """Return no programs: Dynamo counts graphs, and names none."""
    return []


def watch_steps(end_step: Callable[[Any], None], kind_of_step: str) -> None:
    """Call `end_step` after each step of an optimizer, or each pass of the outermost module."""
    if kind_of_step != FORWARD_PASSES:
        register_optimizer_step_post_hook(lambda optimizer, *_: end_step(optimizer))
        return
    depth = 0

    def enter(*_: Any) -> None:
        nonlocal depth
        depth += 1

    def leave(*_: Any) -> None:
        nonlocal depth
        depth -= 1
        if not depth:
            end_step(None)

    register_module_forward_pre_hook(enter)
    register_module_forward_hook(leave, always_call=True)


def wait_for(result: Any) -> None:
    """Wait until the device has finished the step."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def describe_process() -> dict[str, Any]:
    """Return versions and device, as fields of `framebench.growth.record.Growth`."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    return {"versions": {"torch": torch.__version__}, "device": device}


class TracedStorage(NamedTuple):
    """A storage that an operator made."""

    reference: weakref.ref[torch.UntypedStorage]
    operator: str
    made_at: str  # file:line
    bytes: int


class TorchStorages(TorchDispatchMode, StorageTracker):  # type: ignore[misc]  # the mode enters and leaves
    """Notes every storage when an operator first returns it."""

    def __init__(self) -> None:
        """Remember which storages there are already."""
        super().__init__()
        # imports what the first step in a mode imports: while memory is traced that takes minutes
        torch._dynamo.list_backends()
        self.made: dict[int, TracedStorage] = {}  # by address
        self.written: dict[int, str] = {}  # by address, the line that last changed it in place
        tensors = [thing for thing in gc.get_objects() if has_storage(type(thing))]
        self.made_before = {tensor.untyped_storage()._cdata for tensor in tensors}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation; note the storages it made, and the line it writes from."""
        out = func(*args, **(kwargs or {}))
        if func._schema.name.endswith("_") and isinstance(args[0], torch.Tensor):
            line = find_caller(sys._getframe(1))
            self.written[args[0].untyped_storage()._cdata] = line
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                self.add(tensor.untyped_storage(), func._schema.name.removeprefix("aten::"))
        return out

    def add(self, storage: torch.UntypedStorage, operator: str) -> None:
        """Note a storage, unless it has been there before.

        A new storage may get the address of one that was dropped. The weak reference to the earlier
        one tells whether it is still there.
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
        """Return the storages that operators have made and nobody has dropped."""
        alive = [storage for storage in self.made.values() if storage.reference() is not None]
        return [LiveStorage(storage.operator, storage.made_at, storage.bytes) for storage in alive]

    def list_graphs(self) -> dict[GrowingName, int]:
        """Return the operations in the graph of each tensor that a variable of the user's holds.

        Variables are those of the functions that run now and of their modules.
        """
        sizes = {}
        for name, tensor in list_variables(sys._getframe(1)):
            if tensor.grad_fn is not None:
                storage = tensor.untyped_storage()._cdata
                traced = self.made.get(storage)
                line = self.written.get(storage) or (traced.made_at if traced else "")
                sizes[GrowingName(name, line)] = count_graph_nodes(tensor)
        return sizes

    def find_line(self, thing: Any) -> str:
        """Return the line that made a tensor's memory; empty if it was made before."""
        if not has_storage(type(thing)):
            return ""
        made = self.made.get(thing.untyped_storage()._cdata)
        return made.made_at if made else ""

    def describe(self, thing: Any) -> str:
        """Return how large the graph is that a tensor keeps alive, and what would not keep it."""
        if getattr(thing, "grad_fn", None) is None:
            return ""
        size = count_graph_nodes(thing)
        return f"with a graph of {size} operations: keep .item() or .detach() of it instead"


Tracker = TorchStorages  # for `worker.py`


def list_variables(frame: FrameType) -> list[tuple[str, torch.Tensor]]:
    """Return the tensors that variables of the user's code hold, and attributes of objects there.

    Looked at are the callers of this frame that lie in the user's files.
    """
    variables = []
    for caller, _ in walk_stack(frame):
        file = caller.f_code.co_filename
        if rank_file(file) == USER_CODE:
            place = shorten_path(file)
            for name, tensor in list_named_tensors(caller):
                variables.append((f"`{name}`, in {place}", tensor))
    return variables


def list_named_tensors(frame: FrameType) -> list[tuple[str, torch.Tensor]]:
    """Return the tensors among a function's variables, its module's, and their attributes."""
    tensors = []
    for name, value in [*frame.f_globals.items(), *frame.f_locals.items()]:
        if isinstance(value, torch.Tensor):
            tensors.append((name, value))
        for attribute, part in list(getattr(value, "__dict__", {}).items()):
            if isinstance(part, torch.Tensor):
                tensors.append((f"{name}.{attribute}", part))
    return tensors
