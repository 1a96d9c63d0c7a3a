"""A step as a card would run it, followed without one: the memory that PyTorch's allocator would hand out and reserve.

    def make_step(device):                      # everything inside is made without numbers
        model = Model().to(device)
        optimizer = torch.optim.AdamW(model.parameters())
        batch = torch.empty(8, 1024, dtype=torch.long, device=device)
        def step():
            optimizer.zero_grad()
            model(batch).loss.backward()
            optimizer.step()
        return step

    simulate(make_step, devices.find("h100-80gb")).reserved

Every storage on the device goes through `allocator.Allocator`, at its birth and at its death and in that order.
"""

from __future__ import annotations

import gc
import pickle
import threading
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.optim.optimizer as optimizer_hooks
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from framebench.features.devices import torch_attention, torch_autocast, torch_kernels
from framebench.features.devices.allocator import Allocator, Block, Settings
from framebench.features.devices.torch_card import Card, Device
from framebench.features.devices.torch_device import NAME, as_card, replaced

Step = Callable[[], object]
aten = torch.ops.aten
KINDS = ("weights", "gradients", "optimizer states", "activations", "temporaries", "workspaces", "inputs")


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


@dataclass
class Simulation:
    """Bytes unless said otherwise."""

    allocated: int  # the most in use at once in the last step: torch.cuda.max_memory_allocated after a reset
    reserved: int  # the most taken from the card: torch.cuda.max_memory_reserved
    between_steps: int  # in use when the last step began
    by_step: list[int]  # the most in use in each step
    kinds: dict[str, int]  # what was in use at the peak of the last step
    peak_phase: str
    operators: Counter[str]  # that took bytes that were in use at that peak
    kernels: Counter[str]  # of attention, by how often
    largest: list[tuple[int, str, str]]  # at that peak: bytes, operator, kind
    allocator: Allocator
    labels: dict[int, str] = field(repr=False, default_factory=dict)  # the operator of an event

    def snapshot(self, path: Path) -> None:
        """For https://pytorch.org/memory_viz."""
        path.write_bytes(pickle.dumps(snapshot(self.allocator, self.labels)))


class Watch(TorchDispatchMode):
    """Sees each operator once it has run: storages are born, workspaces come, scalars are made up."""

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

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is aten._local_scalar_dense.default:
            return number(args[0])
        if func is aten.scaled_dot_product_attention.default:  # inference mode: nothing above has chosen yet
            with self:
                return torch_attention.attend(self.card, *args, **kwargs)
        out = func(*args, **kwargs)
        operator = func._schema.name.partition("::")[2]
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor) and tensor.device.type == NAME:
                self.born(tensor.untyped_storage(), operator)
        self.beside(operator, args, out)
        return out

    def beside(self, operator: str, args: Any, out: Any) -> None:
        """What the kernel takes beside its results."""
        if not any(isinstance(a, Tensor) and a.device.type == NAME for a in args):
            return
        if operator.startswith("_scaled_dot_product"):
            self.kernels[operator.removeprefix("_scaled_dot_product_")] += 1
        if torch_kernels.product(operator):
            self.workspace("cuBLAS", self.card.blas_workspace)
            if torch_kernels.by_lt(operator, args):
                self.workspace_lt()
        taken: defaultdict[int, list[Life]] = defaultdict(list)
        for size, is_taken in torch_kernels.temporaries(operator, args, self.card):
            if is_taken:
                taken[size].append(self.take(size, operator, "temporaries"))
            else:
                self.died(taken[size].pop())

    def workspace(self, library: str, size: int) -> None:
        """Each thread has handles of its own (ATen/cuda/detail/DeviceThreadHandles.h): the backward pass runs in another."""
        if (key := (threading.get_ident(), library)) not in self.handles:
            self.handles.add(key)
            self.take(size, library, "workspaces")

    def workspace_lt(self) -> None:
        if self.card.keeps_lt_workspace:
            self.workspace("cuBLASLt", self.card.blas_lt_workspace)
        else:
            self.died(self.take(self.card.blas_lt_workspace, "cuBLASLt", "temporaries"))

    def born(self, storage: torch.UntypedStorage, operator: str) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self.known or not size:
            return
        life = self.known[key] = self.take(size, operator)
        weakref.finalize(storage, self.forget, key, life).atexit = False

    def take(self, size: int, operator: str, kind: str = "") -> Life:
        self.labels[len(self.allocator.trace)] = operator
        phase = self.phase if threading.get_ident() == self.home else "backward"
        block = self.allocator.malloc(size)
        life = Life(len(self.lives), size, operator, phase, block, block.size, len(self.allocator.trace), kind=kind)
        self.lives.append(life)
        return life

    def forget(self, key: int, life: Life) -> None:
        if self.known.get(key) is life:
            del self.known[key]
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


CURRENT: list[Card] = []  # the card of the simulation that runs


def _attend(*args: Any, **named: Any) -> Tensor:
    return torch_attention.attend(CURRENT[-1], *args, **named)


@cache
def _register() -> torch.library.Library:
    """The device's own choice of attention, for the rest of the process."""
    library = torch.library.Library("aten", "IMPL")
    library.impl("scaled_dot_product_attention", _attend, "AutogradPrivateUse1")
    torch_autocast.register()
    return library


@contextmanager
def card_of(device: Device, release: tuple[int, int], settings: Settings) -> Iterator[tuple[torch.device, Watch]]:
    """In here tensors have no numbers, and those on the device are counted."""
    watch = Watch(Card(device.compute_capability, release), Allocator(settings))
    clear = torch.clear_autocast_cache

    def cleared() -> None:
        torch_autocast.forget()
        clear()

    with ExitStack() as stack:
        where = stack.enter_context(as_card(watch.allocator.empty_cache))
        _register()
        CURRENT.append(watch.card)
        stack.callback(CURRENT.pop)
        stack.callback(torch_autocast.forget)
        stack.enter_context(replaced(torch, "clear_autocast_cache", cleared))
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        stack.enter_context(watch)
        yield where, watch


def simulate(
    make_step: Callable[[torch.device], Step],
    device: Device,
    *,
    steps: int = 3,
    settings: Settings | None = None,
    release: tuple[int, int] = (2, 13),
) -> Simulation:
    """Run `make_step(device)()` so many times. The limit is the card's memory unless `settings` say otherwise.

    Raises OutOfMemory where the allocator would. Whatever else the step raises is passed on.
    """
    settings = settings or Settings(limit=device.memory_bytes)
    by_step: list[int] = []
    with card_of(device, release, settings) as (where, watch):
        stats, trace = watch.allocator.stats, watch.allocator.trace
        with _phases(watch):
            step = make_step(where)
            models, optimizers = _made()
            watch.mark((t for m in models for t in (*m.parameters(), *m.buffers())), "weights")
            watch.mark((t for o in optimizers for t in tree_leaves(list(o.state.values()))), "optimizer states")
            _mark(watch.lives, "inputs")
            handles = _watch_gradients(watch, models)
            for _ in range(steps):
                watch.phase = "forward"
                stats.allocated_peak, began, between = stats.allocated, len(trace), stats.allocated
                step()
                by_step.append(stats.allocated_peak)
                watch.mark((t for o in optimizers for t in tree_leaves(list(o.state.values()))), "optimizer states")
        for handle in handles:
            handle.remove()
        peak = _peak_event(watch.lives, began, len(trace))
        return _summary(watch, by_step, between, peak)


def _made() -> tuple[list[nn.Module], list[torch.optim.Optimizer]]:
    """All models and optimizers that there are; of others than the step's nothing lies on the device."""
    found = [o for o in gc.get_objects() if issubclass(type(o), (nn.Module, torch.optim.Optimizer))]
    return [o for o in found if isinstance(o, nn.Module)], [o for o in found if isinstance(o, torch.optim.Optimizer)]


def _mark(lives: Iterable[Life], kind: str) -> None:
    for life in lives:
        life.kind = life.kind or kind


def _watch_gradients(watch: Watch, models: Iterable[nn.Module]) -> list[Any]:
    """A gradient is what a weight has after autograd has accumulated into it."""

    def accumulated(weight: Tensor) -> None:
        watch.mark([weight.grad], "gradients")

    weights = {p for m in models for p in m.parameters() if p.requires_grad and p.device.type == NAME}
    return [p.register_post_accumulate_grad_hook(accumulated) for p in weights]


@contextmanager
def _phases(watch: Watch) -> Iterator[None]:
    """Optimizers say when they run; the backward pass is known by its thread."""
    before: list[str] = []

    def enter(*_: Any) -> None:
        before.append(watch.phase)
        watch.phase = "optimizer"

    def leave(*_: Any) -> None:
        watch.phase = before.pop()

    handles = [
        optimizer_hooks.register_optimizer_step_pre_hook(enter),
        optimizer_hooks.register_optimizer_step_post_hook(leave),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _peak_event(lives: list[Life], first: int, last: int) -> int:
    """After how many events of the allocator most was in use; a block that is in use counts whole."""
    changes: defaultdict[int, int] = defaultdict(int)
    for life in lives:
        changes[max(life.born, first)] += life.block_size
        if life.died is not None and life.died >= first:
            changes[life.died + 1] -= life.block_size
        elif life.died is not None:
            changes[first] -= life.block_size
    at, most, now = first, -1, 0
    for event in sorted(changes):
        now += changes[event]
        if now > most and event <= last:
            at, most = event, now
    return at


def _summary(watch: Watch, by_step: list[int], between: int, peak: int) -> Simulation:
    alive = [life for life in watch.lives if life.born <= peak and (life.died is None or life.died >= peak)]
    kinds = dict.fromkeys(KINDS, 0)
    for life in alive:
        kinds[_kind(life)] += life.block_size
    largest = sorted(((life.size, life.operator, _kind(life)) for life in alive), reverse=True)[:12]
    operators: Counter[str] = Counter()
    for life in alive:
        operators[life.operator] += life.block_size
    last = max(alive, key=lambda life: life.born)
    stats = watch.allocator.stats
    return Simulation(
        by_step[-1], stats.reserved_peak, between, by_step, kinds, last.phase, operators, watch.kernels, largest,
        watch.allocator, watch.labels,
    )  # fmt: skip


def _kind(life: Life) -> str:
    """What is no weight, gradient or state was made for later in the forward pass, or for now elsewhere."""
    return life.kind or ("activations" if life.phase == "forward" else "temporaries")


def snapshot(allocator: Allocator, labels: dict[int, str]) -> dict[str, Any]:
    """What `torch.cuda.memory._snapshot` returns: segments with their blocks, and the trace."""
    segments = [
        {
            "device": 0, "address": blocks[0].address, "total_size": sum(b.size for b in blocks), "stream": 0,
            "allocated_size": sum(b.size for b in blocks if b.allocated),
            "active_size": sum(b.size for b in blocks if b.allocated),
            "requested_size": sum(b.requested for b in blocks if b.allocated),
            "segment_type": "small" if blocks[0].pool.small else "large", "segment_pool_id": (0, 0),
            "is_expandable": blocks[0].expandable, "frames": [],
            "blocks": [
                {"address": b.address, "size": b.size, "requested_size": b.requested, "frames": [],
                 "state": "active_allocated" if b.allocated else "inactive"} for b in blocks
            ],
        } for blocks in allocator.segments()
    ]  # fmt: skip
    label, entries = "", []
    for number_, event in enumerate(allocator.trace):
        label = labels.get(number_, label)
        frames = [{"filename": "", "line": 0, "name": label}] if event.action == "alloc" else []
        entries.append(
            {
                "action": event.action,
                "addr": event.address,
                "size": event.size,
                "stream": 0,
                "time_us": number_,
                "frames": frames,
            }
        )
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": allocator.settings.expandable_segments}
    return {"segments": segments, "device_traces": [entries], "allocator_settings": settings}
