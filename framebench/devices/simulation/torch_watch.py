"""Each storage on the device from its birth to its death, and what kernels take beside their results."""

from __future__ import annotations

import sys
import sysconfig
import threading
import weakref
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from framebench.devices.simulation import torch_attention, torch_kernels
from framebench.devices.simulation.allocator import Allocator
from framebench.devices.simulation.blocks import Block, OutOfMemory
from framebench.devices.simulation.torch_card import Card
from framebench.devices.simulation.torch_device import NAME

aten = torch.ops.aten
OTHERS = (str(Path(torch.__path__[0])), sysconfig.get_path("stdlib"), str(Path(__file__).parent), "<")


@dataclass
class Life:
    """One storage or workspace on the device."""

    number: int
    size: int  # as asked for
    operator: str
    phase: str  # build, forward, backward or optimizer
    block: Block
    block_size: int  # as handed out
    born: int  # events of the allocator until then
    died: int | None = None
    kind: str = ""
    line: str = ""  # of the program that asked for it; none in the backward pass
    shape: str = ""


class Watch(TorchDispatchMode):
    """Sees each operator once it has run: storages are born, workspaces come, scalars are made up."""

    supports_higher_order_operators = True

    def __init__(self, card: Card, allocator: Allocator) -> None:
        super().__init__()
        self.card, self.allocator = card, allocator
        self.lives: list[Life] = []
        self.known: dict[int, Life] = {}  # alive, by the address of the storage
        self.handles: set[tuple[int, str]] = set()
        self.home = threading.get_ident()
        self.phase = "build"
        self.kernels: Counter[str] = Counter()
        self.labels: dict[int, str] = {}
        self.refused: OutOfMemory | None = None  # the first request for which the card had no room
        self.sum: tuple[torch.UntypedStorage, Life] | None = None  # of two gradients, and the first one's storage

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload):  # one of a higher order
            return func(*args, **kwargs)
        if func is aten._local_scalar_dense.default and getattr(args[0], "constant", None) is None:
            return number(args[0])
        if func._schema.name.startswith("aten::_fused_") and not func._schema.returns:
            return None  # updates in place, and some have no shapes of their own
        if not torch.is_grad_enabled() and (out := self.composed(func, args, kwargs)) is not NotImplemented:
            return out
        if func is aten._to_copy.default and getattr(args[0], "constant", None) is not None:
            args[0].constant = None  # its number is not copied to the device
        out = func(*args, **kwargs)
        operator = func._schema.name.partition("::")[2]
        if func is aten.add.Tensor and threading.get_ident() != self.home and self.may_overwrite(args[0], args[1], out):
            return out
        self.ran(operator, args, out)
        return out

    def composed(self, func: Any, args: Any, kwargs: Any) -> Any:
        """In inference mode nothing above has taken an operator apart that consists of others, or chosen how to attend."""
        if func is aten.scaled_dot_product_attention.default:
            with self:
                return torch_attention.attend(self.card, *args, **kwargs)
        if func.namespace != "aten" or not func._can_decompose():
            return NotImplemented
        with self:
            return func.decompose(*args, **kwargs)

    def ran(self, operator: str, args: Any, out: Any) -> None:
        """Its results are born, and what its kernel takes beside them comes and goes."""
        if not any(isinstance(a, Tensor) and a.device.type == NAME for a in args):
            self.follow(operator, tree_leaves(out))
            return
        if operator.startswith("_scaled_dot_product"):
            self.kernels[operator.removeprefix("_scaled_dot_product_")] += 1
        self.follow(operator, torch_kernels.as_allocated(operator, tree_leaves(out), args, self.card))
        if torch_kernels.product(operator):
            self.workspace("cuBLAS", self.card.blas_workspace)
            if torch_kernels.by_lt(operator, args):
                self.workspace_lt()
        self.follow(operator, torch_kernels.temporaries(operator, args, self.card))

    def follow(self, operator: str, requests: Iterable[Any]) -> None:
        """Results, and bytes that are taken or given back."""
        taken: defaultdict[int, list[Life]] = defaultdict(list)
        for one in requests:
            if isinstance(one, Tensor):
                if one.device.type == NAME:
                    self.born(one.untyped_storage(), operator, shape_of(one))
            elif isinstance(one, tuple):
                size, is_taken = one
                if is_taken:
                    taken[size].append(self.take(size, operator, "temporaries"))
                else:
                    self.died(taken[size].pop())

    def workspace(self, library: str, size: int) -> None:
        """Each thread has handles of its own (ATen/cuda/detail/DeviceThreadHandles.h): the backward pass runs in another."""
        if size and (key := (threading.get_ident(), library)) not in self.handles:
            self.handles.add(key)
            self.take(size, library, "workspaces")

    def workspace_lt(self) -> None:
        if self.card.keeps_lt_workspace:
            self.workspace("cuBLASLt", self.card.blas_lt_workspace)
        else:
            self.died(self.take(self.card.blas_lt_workspace, "cuBLASLt", "temporaries"))

    def may_overwrite(self, first: Tensor, second: Tensor, out: Tensor) -> bool:
        """Where two gradients meet, autograd writes their sum over the first if nothing else holds it, as its base holds a view
        (`can_accumulate_inplace` in torch/csrc/autograd/input_buffer.cpp). It never does so to tensors that a mode follows, as
        here: they are added, and the first dies at once. So a sum that no line of a program asks for gets no block until it is
        seen what happens next."""
        whole = {t.untyped_storage().nbytes() for t in (first, second, out) if isinstance(t, Tensor)}
        owner = self.known.get(first.untyped_storage()._cdata) if isinstance(second, Tensor) else None
        if owner is None or first._is_view() or whole != {first.numel() * first.element_size()} or line_of(sys._getframe(1)):
            return False
        self.settle()
        self.sum = out.untyped_storage(), owner
        return True

    def settle(self, dead: Life | None = None) -> bool:
        """Whether a sum took the place of what is dead; else it has a block of its own from now on."""
        if self.sum is None:
            return False
        (storage, owner), self.sum = self.sum, None
        if owner is not dead:
            self.born(storage, "add", owner.shape)
            return False
        self.known[storage._cdata] = owner
        weakref.finalize(storage, self.forget, storage._cdata, owner).atexit = False
        return True

    def born(self, storage: torch.UntypedStorage, operator: str, shape: str) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self.known or not size:
            return
        life = self.known[key] = self.take(size, operator)
        life.shape = shape
        weakref.finalize(storage, self.forget, key, life).atexit = False

    def take(self, size: int, operator: str, kind: str = "") -> Life:
        self.settle()
        line = line_of(sys._getframe(1))
        self.labels[len(self.allocator.trace)] = f"{operator} {line}".strip()
        phase = self.phase if threading.get_ident() == self.home else "backward"
        block = self.malloc(size)
        life = Life(len(self.lives), size, operator, phase, block, block.size, len(self.allocator.trace), kind=kind, line=line)
        self.lives.append(life)
        return life

    def malloc(self, size: int) -> Block:
        """Where the card has no room the step goes on without a limit, and `refused` says so: what is raised in autograd's own
        threads ends the process."""
        try:
            return self.allocator.malloc(size)
        except OutOfMemory as error:
            self.refused = self.refused or error
            self.allocator.settings = replace(self.allocator.settings, limit=None)
            return self.allocator.malloc(size)

    def forget(self, key: int, life: Life) -> None:
        if self.known.get(key) is life:
            del self.known[key]
        if not self.settle(dead=life):
            self.died(life)

    def died(self, life: Life) -> None:
        life.died = len(self.allocator.trace)
        self.allocator.free(life.block)

    def mark(self, tensors: Iterable[Any], kind: str) -> None:
        """What these tensors hold on the device is of this kind, unless it has one."""
        for tensor in tensors:
            if isinstance(tensor, Tensor) and tensor.device.type == NAME:
                for part in _parts(tensor):
                    life = self.known.get(part.untyped_storage()._cdata)
                    if life and not life.kind:
                        life.kind = kind


def shape_of(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def line_of(frame: FrameType | None) -> str:
    """The innermost line that is not PyTorch's, Python's or the simulation's, with the last two parts of its file."""
    while frame:
        if not (file := frame.f_code.co_filename).startswith(OTHERS):
            return f"{'/'.join(file.split('/')[-2:])}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _parts(tensor: Tensor) -> Iterator[Tensor]:
    """The plain tensors of which a wrapper consists."""
    if hasattr(tensor, "__tensor_flatten__") and type(tensor).__name__ != "FakeTensor":
        names, _ = tensor.__tensor_flatten__()
        for name in names:
            yield from _parts(getattr(tensor, name))
    else:
        yield tensor


def number(tensor: Tensor) -> Any:
    """What a program reads of a tensor without numbers: of a counter on the host 1, of a float on the device 0, so that no
    gradient is found infinite (GradScaler), of a truth value True."""
    if tensor.dtype == torch.bool:
        return True
    if not tensor.is_floating_point():
        return 1
    return 0.0 if tensor.device.type == NAME else 1.0
