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
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.optim.optimizer as optimizer_hooks
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves

from framebench.devices.simulation import torch_attention, torch_autocast
from framebench.devices.simulation.allocator import Allocator
from framebench.devices.simulation.blocks import Settings
from framebench.devices.simulation.torch_card import Card, Device
from framebench.devices.simulation.torch_convolutions import described
from framebench.devices.simulation.torch_device import NAME, as_card, replaced
from framebench.devices.simulation.torch_eager import OnCard
from framebench.devices.simulation.torch_snapshot import snapshot
from framebench.devices.simulation.torch_watch import Life, Watch

Step = Callable[[], object]
KINDS = ("weights", "gradients", "optimizer states", "activations", "temporaries", "workspaces", "inputs")


class Holder(NamedTuple):
    """What one line of a program holds in tensors of one shape."""

    line: str  # with the operator
    shape: str
    kind: str
    bytes: int
    tensors: int


@dataclass
class Simulation:
    """Bytes unless said otherwise."""

    allocated: int  # the most in use at once in the last step: torch.cuda.max_memory_allocated after a reset
    reserved: int  # the most taken from the card: torch.cuda.max_memory_reserved
    between_steps: int  # in use when the last step began
    by_step: list[int]  # the most in use in each step
    kinds: dict[str, int]  # what was in use at the peak of the last step
    peak_phase: str
    kernels: Counter[str]  # of attention, by how often
    holders: list[Holder]  # at that peak, most bytes first
    allocator: Allocator
    labels: dict[int, str] = field(repr=False, default_factory=dict)  # the operator of an event

    def snapshot(self, path: Path) -> None:
        """For https://pytorch.org/memory_viz."""
        path.write_bytes(pickle.dumps(snapshot(self.allocator, self.labels)))


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
def card_of(
    device: Device, release: tuple[int, int], settings: Settings, blas_takes: bool = True
) -> Iterator[tuple[torch.device, Watch]]:
    """In here tensors have no numbers, and those on the device are counted."""
    card = Card(
        device.compute_capability, release, described(device), cores=device.cores, threads_per_core=device.threads_per_core,
        blas_takes=blas_takes,
    )  # fmt: skip
    watch = Watch(card, Allocator(settings))
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
        # torch.tensor(1.0, device=gpu) makes its number on the host and moves it where modes see it
        stack.callback(torch._C._set_only_lift_cpu_tensors, torch._C._only_lift_cpu_tensors())
        torch._C._set_only_lift_cpu_tensors(True)
        stack.enter_context(watch)
        stack.enter_context(OnCard())
        yield where, watch


def simulate(
    make_step: Callable[[torch.device], Step],
    device: Device,
    *,
    steps: int = 3,
    settings: Settings | None = None,
    release: tuple[int, int] = (2, 13),
    blas_takes: bool = True,
) -> Simulation:
    """Run `make_step(device)()` so many times. The limit is the card's memory unless `settings` say otherwise. `blas_takes`:
    whether cuBLAS has a workspace in the pool, as it has by default.

    Raises OutOfMemory where the allocator would. Whatever else the step raises is passed on.
    """
    settings = settings or Settings(limit=device.memory_bytes)
    by_step: list[int] = []
    with card_of(device, release, settings, blas_takes) as (where, watch):
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
        if watch.refused:
            raise watch.refused
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
    last = max(alive, key=lambda life: life.born)
    return Simulation(
        by_step[-1], watch.allocator.stats.reserved_peak, between, by_step, kinds, last.phase, watch.kernels, _holders(alive),
        watch.allocator, watch.labels,
    )  # fmt: skip


def _holders(alive: Iterable[Life]) -> list[Holder]:
    groups: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
    for life in alive:
        groups[f"{life.line} {life.operator}".strip(), life.shape, _kind(life)].append(life.block_size)
    holders = [Holder(*group, sum(sizes), len(sizes)) for group, sizes in groups.items()]
    return sorted(holders, key=lambda holder: -holder.bytes)


def _kind(life: Life) -> str:
    """What is no weight, gradient or state was made for later in the forward pass, or for now elsewhere."""
    return life.kind or ("activations" if life.phase == "forward" else "temporaries")
