"""Simulate the memory that PyTorch's allocator would hand out and reserve for a step on a GPU.

    def make_step(device):                      # everything inside is made of fake tensors
        model = Model().to(device)
        optimizer = torch.optim.AdamW(model.parameters())
        batch = torch.empty(8, 1024, dtype=torch.long, device=device)
        def step():
            optimizer.zero_grad()
            model(batch).loss.backward()
            optimizer.step()
        return step

    simulate(make_step, devices.find("h100-80gb")).reserved

Every storage on the device takes its block from `allocator.Allocator` when it is born, and gives it
back when it dies.
"""

from __future__ import annotations

import gc
import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.optim.optimizer as optimizer_hooks
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from framebench.adapters.torch.fake_mode import make_fake_mode
from framebench.devices.catalog import Device
from framebench.devices.needs import INTERVALS, ErrorInterval, Kind, estimate_needs
from framebench.devices.simulation import (
    torch_attention,
    torch_autocast,
    torch_flex,
    torch_jagged,
    torch_shapes,
)
from framebench.devices.simulation.allocator import Allocator
from framebench.devices.simulation.blocks import Settings
from framebench.devices.simulation.torch_bitsandbytes import (
    follow_bitsandbytes,
    list_cached_tables,
)
from framebench.devices.simulation.torch_compiled import make_compile
from framebench.devices.simulation.torch_cuda import answer_cuda
from framebench.devices.simulation.torch_device import (
    GpuStream,
    Replacement,
    do_nothing,
    is_on_gpu,
    pose_as_gpu,
    replace_attributes,
)
from framebench.devices.simulation.torch_eager import EagerOnGpu
from framebench.devices.simulation.torch_gpu import RULES_OF_RELEASE, Gpu
from framebench.devices.simulation.torch_watch import Life, Watch, find_peak

Step = Callable[[], object]
CURRENT: list[Gpu] = []  # the GPU of the simulation that runs
KINDS = (
    "weights",
    "gradients",
    "optimizer states",
    "activations",
    "temporaries",
    "workspaces",
    "quantization states",
    "inputs",
)


class LineTensors(NamedTuple):
    """The tensors of one shape that one line of a program holds."""

    line: str  # with the operator
    shape: str
    kind: str
    bytes: int
    tensors: int


@dataclass(repr=False)
class Simulation:
    """What the steps needed on the simulated GPU. Sizes are in bytes."""

    device: Device
    # the most in use at once in the last step: torch.cuda.max_memory_allocated after a reset
    allocated: int
    reserved: int  # the most taken from the GPU: torch.cuda.max_memory_reserved
    between_steps: int  # in use when the last step began
    by_step: list[int]  # the most in use in each step
    kinds: dict[str, int]  # bytes in use at the peak of the last step
    holders: list[LineTensors]  # at that peak, most bytes first
    has_frozen_weights: bool  # more than half of the weights' numbers get no gradient
    has_4bit_weights: bool  # some of the weights are packed by bitsandbytes
    watch: Watch  # what was seen of all steps, from the model's building on

    @property
    def kind(self) -> Kind:
        """Return the kind of prediction, by which its error is stated.

        Unknown workspaces come first, as no other error that was measured is as large. What cuDNN
        keeps for recurrent layers is next: it was compared with no measured peak.
        """
        if self.watch.convolutions[False]:
            return "torch, convolutions without workspaces"
        if self.watch.has_recurrent:
            return "torch, recurrent layers"
        if self.watch.is_compiled:
            return "torch, compiled"
        if self.watch.is_tensor_parallel:
            return "torch, tensor parallel"
        if self.watch.ranks > 1:
            return "torch, ranks"
        if self.watch.convolutions[True]:
            return "torch, convolutions"
        if self.has_4bit_weights:
            return "torch, weights of 4 bits"
        return "torch, frozen weights" if self.has_frozen_weights else "torch"

    @property
    def interval(self) -> ErrorInterval:
        """Return how far predictions of this kind were off."""
        return INTERVALS[self.kind]

    @property
    def needs(self) -> int:
        """Return the bytes of the GPU's memory to plan with.

        That is `reserved`, the share by which such predictions were too low (`interval.high`), and
        the largest CUDA context that was measured.
        """
        return estimate_needs(self.reserved, self.interval.high, self.device)

    def __repr__(self) -> str:
        """Return the sizes alone: pytest prints it where an assertion about the step fails."""
        allocated, reserved, needs = (
            f"{size / 2**30:,.2f} GiB" for size in (self.allocated, self.reserved, self.needs)
        )
        return (
            f"<step on {self.device.title}: allocated {allocated}, reserved {reserved}, "
            f"needs {needs}>"
        )

    @property
    def timeline(self) -> list[int]:
        """Return the bytes in use after each event, from the model's building to the last step.

        They are not rounded, while the allocator rounds each request up to 512 bytes.
        """
        in_use = 0
        sizes = []
        for event in self.watch.allocator.trace:
            if event.action == "alloc":
                in_use += event.size
            elif event.action == "free_completed":
                in_use -= event.size
            sizes.append(in_use)
        return sizes

    def snapshot(self, path: Path) -> None:
        """Write a file for https://pytorch.org/memory_viz."""
        path.write_bytes(pickle.dumps(self.watch.make_snapshot()))


def read_release() -> tuple[int, int]:
    """Return the release of the PyTorch that runs, such as (2, 13)."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


@cache
def register_attention() -> torch.library.Library:
    """Register the device's own choice of attention, for the rest of the process."""

    def attend(*args: Any, **kwargs: Any) -> Tensor:
        return torch_attention.attend(CURRENT[-1], *args, **kwargs)

    library = torch.library.Library("aten", "IMPL")
    library.impl("scaled_dot_product_attention", attend, "AutogradPrivateUse1")
    return library


def register_whole_operators(gpu: Gpu, library: torch.library.Library) -> None:
    """Register kernels of the device, so that autograd and `Watch` see these operators whole.

    Fake tensors never reach a kernel.
    """

    def refuse(*_: Any, **__: Any) -> None:
        raise NotImplementedError

    for operator in gpu.whole_operators:
        library.impl(operator, refuse, "PrivateUse1")
    for operator, function in torch_shapes.ON_CUDA_ALONE.items():
        library.impl(operator, function, "Meta")


@contextmanager
def simulated_gpu(watch: Watch) -> Iterator[torch.device]:
    """Make tensors fake in this context, and let `watch` follow those on the device it yields."""
    clear_cache = torch.clear_autocast_cache
    resize = torch.UntypedStorage.resize_

    def clear_both_caches() -> None:
        torch_autocast.CAST_WEIGHTS.clear()
        clear_cache()

    def resize_and_follow(storage: torch.UntypedStorage, size: int) -> torch.UntypedStorage:
        resize(storage, size)
        watch.resize(storage)  # no dispatch mode sees it
        return storage

    def record_stream(tensor: Tensor, stream: GpuStream) -> None:
        watch.record_stream(tensor, stream.number)

    replacements: list[Replacement] = [
        (torch, "clear_autocast_cache", clear_both_caches),
        (torch, "compile", make_compile(watch)),
        # a file of fake tensors would take the place of the program's own
        (torch, "save", do_nothing),
        (torch.UntypedStorage, "resize_", resize_and_follow),
        (Tensor, "record_stream", record_stream),
        *torch_flex.REPLACEMENTS,
        *torch_jagged.list_replacements(watch.gpu),
    ]
    with ExitStack() as stack:
        where = stack.enter_context(pose_as_gpu(watch.allocator))
        register_attention()
        library = stack.enter_context(torch.library._scoped_library("aten", "IMPL"))
        register_whole_operators(watch.gpu, library)
        torch_autocast.register()
        CURRENT.append(watch.gpu)
        stack.callback(CURRENT.pop)
        stack.callback(torch_autocast.CAST_WEIGHTS.clear)
        stack.enter_context(replace_attributes(replacements))
        stack.enter_context(follow_bitsandbytes())
        stack.enter_context(make_fake_mode(allow_non_fake_inputs=True))
        # torch.tensor(1.0, device=gpu) makes its number on the host and moves it where modes see it
        stack.callback(torch._C._set_only_lift_cpu_tensors, torch._C._only_lift_cpu_tensors())
        torch._C._set_only_lift_cpu_tensors(True)
        # in this thread an error, such as that the GPU has no memory, is raised where it happens
        stack.enter_context(torch.autograd.set_multithreading_enabled(False))
        stack.enter_context(watch)
        stack.enter_context(EagerOnGpu(watch))
        stack.enter_context(answer_cuda(watch))
        stack.callback(setattr, watch, "has_ended", True)  # also of what an error interrupts
        yield where


def simulate(
    make_step: Callable[[torch.device], Step],
    device: Device,
    *,
    steps: int = 3,
    settings: Settings | None = None,
    release: tuple[int, int] = RULES_OF_RELEASE,
    blas_takes: bool = True,
    rank: int = 0,
    ranks: int = 1,
    chooses_all: bool | None = None,
    waits_for_streams: bool | None = None,
    largest_workspaces: bool = False,
) -> Simulation:
    """Run `make_step(device)()` several times on fake tensors.

    Args:
        make_step: Builds the program on a device and returns its step.
        device: A GPU of the catalog.
        steps: How often the step runs.
        settings: The allocator's settings. By default the limit is the GPU's memory.
        release: The release of PyTorch to simulate, where releases are known to differ.
        blas_takes: Whether cuBLAS has a workspace in the pool, as it has by default.
        rank: Which of several ranks it is.
        ranks: How many there are, each with a GPU.
        chooses_all: Whether operators that choose elements by their values choose all or none.
        waits_for_streams: Whether memory that another stream uses (`Tensor.record_stream`) stays
            taken until the step ends, or is free as soon as the program drops it.
        largest_workspaces: Whether each convolution takes the largest workspace that cuDNN names,
            in the place of the one that its heuristics put first.

    Raises:
        UnknownChoice: The step chooses elements by their values, and `chooses_all` is None.
        UnknownTiming: Another stream uses memory of the step, and `waits_for_streams` is None.
        StepOnHost: The step ran on the CPU.
        OutOfMemory: Where the allocator would. Whatever else the step raises is passed on.
    """
    watch = Watch(
        Gpu(device, release, largest_workspaces=largest_workspaces, blas_takes=blas_takes),
        Allocator(settings or Settings(limit=device.memory_bytes)),
        ranks=ranks,
        chooses_all=chooses_all,
        waits_for_streams=waits_for_streams,
    )
    stats = watch.allocator.stats
    by_step: list[int] = []
    with ExitStack() as stack:
        if ranks > 1:
            # imported here, since one GPU has no use for it
            from framebench.devices.simulation.torch_ranks import join_as_rank

            stack.enter_context(join_as_rank(rank, watch))
        where = stack.enter_context(simulated_gpu(watch))
        with follow_phases(watch):
            step = make_step(where)
            models, optimizers = find_models_and_optimizers()
            weights: set[nn.Parameter] = set()
            for model in models:
                watch.mark([*model.parameters(), *model.buffers()], "weights")
                weights.update(model.parameters())
            quantization_states = list_quantization_states(weights)
            watch.mark([*quantization_states, *list_cached_tables()], "quantization states")
            mark_states(watch, optimizers)
            for life in watch.lives:
                life.kind = life.kind or "inputs"
            stack.enter_context(marked_gradients(watch, weights))
            for _ in range(steps):
                watch.phase = "forward"
                first_place = len(watch.allocator.trace)
                between_steps = stats.allocated
                stats.allocated_peak = between_steps  # of this step alone
                step()
                watch.end_step()
                by_step.append(stats.allocated_peak)
                mark_states(watch, optimizers)
        watch.check_device()
        peak_place, _ = find_peak(watch.lives, attrgetter("block_size"), first_place)
        kinds, holders = summarize(watch.lives, peak_place)
        return Simulation(
            device=device,
            allocated=by_step[-1],
            reserved=stats.reserved_peak,
            between_steps=between_steps,
            by_step=by_step,
            kinds=kinds,
            holders=holders,
            has_frozen_weights=is_mostly_frozen(filter(watch.holds, weights)),
            has_4bit_weights=any(map(watch.holds, quantization_states)),
            watch=watch,
        )


def list_quantization_states(weights: Iterable[nn.Parameter]) -> list[Tensor]:
    """Return the scales and tables by which bitsandbytes reads packed weights.

    Scales may themselves be packed: their state is `state2` (double quantization).
    """
    tensors = []
    for weight in weights:
        state = getattr(weight, "quant_state", None)
        while state is not None:
            tensors += [value for value in vars(state).values() if isinstance(value, Tensor)]
            state = getattr(state, "state2", None)
    return tensors


def is_mostly_frozen(weights: Iterable[nn.Parameter]) -> bool:
    """Return whether some of the weights are trained, and most of their numbers are not."""
    trained = 0
    frozen = 0
    for weight in weights:
        if weight.requires_grad:
            trained += weight.numel()
        else:
            frozen += weight.numel()
    return 0 < trained < frozen


@contextmanager
def marked_gradients(watch: Watch, weights: Iterable[nn.Parameter]) -> Iterator[None]:
    """Mark the gradients of these weights as such in this context."""

    def mark_gradient(weight: Tensor) -> None:
        watch.mark([weight.grad], "gradients")

    with ExitStack() as stack:
        for weight in weights:
            if weight.requires_grad and is_on_gpu(weight):
                # called once autograd has accumulated into the weight's gradient
                handle = weight.register_post_accumulate_grad_hook(mark_gradient)
                stack.callback(handle.remove)
        yield


def find_models_and_optimizers() -> tuple[list[nn.Module], list[torch.optim.Optimizer]]:
    """Return all models and optimizers of the process.

    Some may not belong to the step: none of their tensors lie on the simulated device.
    """
    models = []
    optimizers = []
    for instance in gc.get_objects():
        # by its type, as `isinstance` asks some objects for a class that they make up
        if issubclass(type(instance), nn.Module):
            models.append(instance)
        elif issubclass(type(instance), torch.optim.Optimizer):
            optimizers.append(instance)
    return models, optimizers


def mark_states(watch: Watch, optimizers: Iterable[torch.optim.Optimizer]) -> None:
    """Mark the tensors that optimizers hold between steps."""
    for optimizer in optimizers:
        states = tree_leaves(list(optimizer.state.values()))
        weights: list[Tensor] = []
        for group in optimizer.param_groups:
            weights += group["params"]
        is_of_simulation = any(watch.holds(weight) for weight in weights)
        if is_of_simulation:  # and not of an earlier one
            watch.adopt(states, type(optimizer).__name__)
        watch.mark(states, "optimizer states")


@contextmanager
def follow_phases(watch: Watch) -> Iterator[None]:
    """Let optimizers say when they run; autograd says when a backward pass runs.

    Raises NotImplementedError for L-BFGS.
    """
    before: list[str] = []

    def enter(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if isinstance(optimizer, torch.optim.LBFGS):
            raise NotImplementedError(
                "how many gradients L-BFGS keeps is decided by their values, and tensors have none "
                "here"
            )
        before.append(watch.phase)
        watch.phase = "optimizer"

    def leave(*_: Any) -> None:
        watch.phase = before.pop()

    with ExitStack() as stack:
        stack.callback(optimizer_hooks.register_optimizer_step_pre_hook(enter).remove)
        stack.callback(optimizer_hooks.register_optimizer_step_post_hook(leave).remove)
        yield


def summarize(lives: Iterable[Life], place: int) -> tuple[dict[str, int], list[LineTensors]]:
    """Return the bytes in use at a place by kind, and what each line holds, most bytes first."""
    kinds = dict.fromkeys(KINDS, 0)
    groups: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
    for life in lives:
        if not life.is_alive_at(place):
            continue
        kind = life.kind
        if not kind:  # neither a weight, a gradient nor a state
            kind = "activations" if life.phase == "forward" else "temporaries"
        kinds[kind] += life.block_size
        groups[life.describe(), life.shape, kind].append(life.block_size)
    holders = []
    for (line, shape, kind), sizes in groups.items():
        holders.append(LineTensors(line, shape, kind, sum(sizes), len(sizes)))
    holders.sort(key=attrgetter("bytes"), reverse=True)
    return kinds, holders
