"""Answer what programs ask of `torch.cuda`, as on the GPU that is simulated.

A training script asks whether there is a GPU, which one, how much of its memory is free and how
much it took itself. Without these answers it would run on the CPU, and the simulation would count
nothing. Sizes are the simulated allocator's. What only a GPU can tell, such as its temperature, is
refused with the reason.

Programs see the device as `cuda:0`, while PyTorch itself sees the device of `torch_device`.
"""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _device
from torch.utils.data import DataLoader

from framebench.devices.catalog import CONTEXT
from framebench.devices.simulation.scope import MODES
from framebench.devices.simulation.torch_device import (
    CUDA,
    NAME,
    GpuStream,
    Replacement,
    do_nothing,
    register_backend,
    replace_attributes,
    take_place_of_cuda,
)
from framebench.devices.simulation.torch_gpu import CUDNN
from framebench.devices.simulation.torch_watch import Watch

INSTALLED = Path(torch.__path__[0]).parent
# Beginnings of files that see the simulated device under its own name: PyTorch, this package, and
# packages that hand a tensor's device to functions which `EagerOnGpu` does not see.
SEES_SIMULATED = (
    f"{INSTALLED / 'torch'}{os.sep}",
    f"{INSTALLED / 'torchao'}{os.sep}",
    f"{INSTALLED / 'bitsandbytes'}{os.sep}",
    f"{Path(__file__).parents[2]}{os.sep}",  # framebench
    "<",
)
# functions and classes of torch.cuda that have no answer here, by the reason
REFUSED = {
    MODES["reduce-overhead"]: ("CUDAGraph", "graph", "graph_pool_handle", "make_graphed_callables"),
    "only PyTorch's caching allocator is simulated": (
        "CUDAPluggableAllocator",
        "MemPool",
        "caching_allocator_alloc",
        "caching_allocator_delete",
        "caching_allocator_disabled",
        "caching_allocator_enable",
        "change_current_allocator",
        "host_memory_stats",
        "host_memory_stats_as_nested_dict",
        "use_mem_pool",
    ),
    "torch.cuda.memory_stats() has what is simulated": ("memory_stats_as_nested_dict",),
    "one GPU is simulated": ("can_device_access_peer",),
    'name dtype and device="cuda" in its place': (
        "BFloat16Tensor",
        "BoolTensor",
        "ByteTensor",
        "CharTensor",
        "DoubleTensor",
        "FloatTensor",
        "HalfTensor",
        "IntTensor",
        "LongTensor",
        "ShortTensor",
    ),
    "only the GPU itself can tell": (
        "clock_rate",
        "device_memory_used",
        "list_gpu_processes",
        "memory_usage",
        "power_draw",
        "temperature",
        "utilization",
    ),
    "it is the driver's, and no driver is here": (
        "ExternalStream",
        "GreenContext",
        "check_error",
        "cudart",
        "current_blas_handle",
        "current_solver_handle",
        "get_stream_from_external",
    ),
}
# functions that have nothing to do here
IDLE = (
    "init",
    "ipc_collect",
    "manual_seed",
    "manual_seed_all",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_host_memory_stats",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
    "set_sync_debug_mode",
)
# functions of `torch.accelerator` that are answered as those of torch.cuda
OF_ACCELERATOR = (
    "device_count",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
    "set_stream",
)


class MemoryStatistics(dict[str, int]):
    """What `torch.cuda.memory_stats` returns, of what is simulated."""

    def __missing__(self, key: str) -> int:
        raise NotImplementedError(
            f"torch.cuda.memory_stats()[{key!r}] is not simulated; there are {', '.join(self)}"
        )


class CudaAnswers:
    """The functions of `torch.cuda`, by their names, for one simulation."""

    def __init__(self, watch: Watch) -> None:
        """Answer as the GPU of a simulation, of which the machine has one for each rank."""
        self.watch = watch
        self.gpu = watch.gpu
        self.device = watch.gpu.device
        self.backend = register_backend()

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def device_count(self) -> int:
        return self.watch.ranks

    def current_device(self) -> int:
        return 0

    def set_device(self, device: Any) -> None:
        check_index(device)

    def get_device_name(self, device: Any = None) -> str:
        check_index(device)
        return self.device.title

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        check_index(device)
        return self.gpu.capability

    def get_device_properties(self, device: Any = None) -> SimpleNamespace:
        check_index(device)
        return self.gpu.properties

    def is_bf16_supported(self, including_emulation: bool = True) -> bool:
        return including_emulation or self.gpu.capability >= (8, 0)

    def is_tf32_supported(self) -> bool:
        return self.gpu.capability >= (8, 0)

    def get_arch_list(self) -> list[str]:
        major, minor = self.gpu.capability
        return [f"sm_{major}{minor}"]

    def memory_allocated(self, device: Any = None) -> int:
        check_index(device)
        return self.watch.allocator.stats.allocated

    def max_memory_allocated(self, device: Any = None) -> int:
        check_index(device)
        return self.watch.allocator.stats.allocated_peak_since_reset

    def memory_reserved(self, device: Any = None) -> int:
        check_index(device)
        return self.watch.allocator.stats.reserved

    def max_memory_reserved(self, device: Any = None) -> int:
        check_index(device)
        return self.watch.allocator.stats.reserved_peak_since_reset

    def reset_peak_memory_stats(self, device: Any = None) -> None:
        check_index(device)
        self.watch.allocator.stats.reset_peaks()

    def mem_get_info(self, device: Any = None) -> tuple[int, int]:
        """Return the bytes that are free and all there are.

        Next to what the allocator reserves the largest CUDA context that was measured is taken.
        """
        check_index(device)
        taken = self.watch.allocator.stats.reserved + CONTEXT[1]
        return max(self.device.memory_bytes - taken, 0), self.device.memory_bytes

    def memory_stats(self, device: Any = None) -> MemoryStatistics:
        """Return the statistics that are simulated, under PyTorch's names."""
        check_index(device)
        stats = self.watch.allocator.stats
        counted = MemoryStatistics()
        for name in ("allocated_bytes", "active_bytes"):
            counted[f"{name}.all.current"] = stats.allocated
            counted[f"{name}.all.peak"] = stats.allocated_peak_since_reset
        counted["requested_bytes.all.current"] = stats.requested
        counted["reserved_bytes.all.current"] = stats.reserved
        counted["reserved_bytes.all.peak"] = stats.reserved_peak_since_reset
        counted["segment.all.current"] = stats.segments
        counted["num_alloc_retries"] = stats.retries
        counted["num_ooms"] = stats.refusals
        return counted

    def memory_summary(self, device: Any = None, abbreviated: bool = False) -> str:
        """Return the statistics as lines."""
        del abbreviated
        lines = [f"{self.device.title}, simulated"]
        lines += [f"{name}: {count:,}" for name, count in self.memory_stats(device).items()]
        return "\n".join(lines)

    def memory_snapshot(self, *_: Any, **__: Any) -> Any:
        return self.watch.make_snapshot()["segments"]

    def _snapshot(self, *_: Any, **__: Any) -> Any:
        return self.watch.make_snapshot()

    def _dump_snapshot(self, filename: str = "dump_snapshot.pickle", *_: Any, **__: Any) -> None:
        """Write a file for https://pytorch.org/memory_viz."""
        Path(filename).write_bytes(pickle.dumps(self.watch.make_snapshot()))

    def set_per_process_memory_fraction(self, fraction: float, device: Any = None) -> None:
        """Limit what the allocator may reserve, unless the simulation is to have no limit."""
        check_index(device)
        allocator = self.watch.allocator
        if allocator.settings.limit is not None:
            limit = int(fraction * self.device.memory_bytes)
            allocator.settings = replace(allocator.settings, limit=limit)

    def get_per_process_memory_fraction(self, device: Any = None) -> float:
        """Return the share of the GPU's memory that the allocator may reserve."""
        check_index(device)
        limit = self.watch.allocator.settings.limit
        return 1.0 if limit is None else limit / self.device.memory_bytes

    def get_allocator_backend(self) -> str:
        return "native"

    def get_sync_debug_mode(self) -> int:
        return 0  # no call that waits for the GPU is reported

    def get_rng_state(self, device: Any = None) -> Tensor:
        check_index(device)
        return self.backend.get_rng_state()

    def get_rng_state_all(self) -> list[Tensor]:
        return [self.backend.get_rng_state() for _ in range(self.watch.ranks)]

    def initial_seed(self) -> int:
        return torch.initial_seed()

    def default_stream(self, device: Any = None) -> GpuStream:
        check_index(device)
        return self.backend.default

    def set_stream(self, stream: GpuStream | None) -> None:
        if stream is not None:
            self.backend.select(stream)

    def is_current_stream_capturing(self) -> bool:
        return False

    def list_replacements(self) -> Iterator[Replacement]:
        """Yield the owner, name and value of each attribute that is replaced."""
        for name in dir(type(self)):
            if not name.startswith("_"):
                # functions of the last two modules call each other by their own names
                for owner in (torch.cuda, torch.cuda.memory, torch.cuda.random):
                    yield owner, name, getattr(self, name)
        for name in IDLE:
            yield torch.cuda, name, do_nothing
        for why, names in REFUSED.items():
            for name in names:
                yield torch.cuda, name, make_refusal(f"torch.cuda.{name}", why)
        for name in ("reset_max_memory_allocated", "reset_max_memory_cached"):
            yield torch.cuda, name, self.reset_peak_memory_stats
        yield torch.cuda, "device", GpuContext
        yield torch.cuda, "device_of", NoContext
        for name in ("range_push", "range_pop", "mark"):
            yield torch.cuda.nvtx, name, do_nothing
        yield torch.cuda.memory, "_record_memory_history", do_nothing
        yield torch.cuda.memory, "_snapshot", self._snapshot
        yield torch.cuda.memory, "_dump_snapshot", self._dump_snapshot
        yield torch.backends.cudnn, "is_available", self.is_available
        yield torch.backends.cudnn, "version", lambda: CUDNN
        # older releases do not have it
        accelerator = getattr(torch, "accelerator", None)
        for name, value in self.list_of_accelerator().items():
            yield accelerator, name, value

    def list_of_accelerator(self) -> dict[str, Any]:
        """Return the value of each attribute of `torch.accelerator` that is replaced."""
        idle = ("empty_host_cache", "reset_accumulated_memory_stats", "synchronize")
        return {
            **{name: getattr(self, name) for name in OF_ACCELERATOR},
            **dict.fromkeys(idle, do_nothing),
            "Graph": make_refusal("torch.accelerator.Graph", MODES["reduce-overhead"]),
            "current_accelerator": find_accelerator,
            "current_device_index": self.current_device,
            "device_index": GpuContext,
            "empty_cache": self.backend.empty_cache,
            "get_device_capability": make_refusal(
                "torch.accelerator.get_device_capability", "torch.cuda has one that is"
            ),
            "get_memory_info": self.mem_get_info,
            "set_device_index": self.set_device,
        }


class NoContext:
    """A context that does nothing, whatever it is made of."""

    __init__ = __enter__ = __exit__ = do_nothing


class GpuContext(NoContext):
    """Take the place of the context `torch.cuda.device`."""

    def __init__(self, device: Any = None) -> None:
        """Check that the device is the simulated one."""
        check_index(device)


class GeneratorClass(type):
    """The class of `Generator`: its instances are PyTorch's generators of the host."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, torch._C.Generator)

    def __call__(cls, device: Any = "cpu") -> torch.Generator:
        """Return a generator of the host, whatever its device: fake tensors have no numbers."""
        check_index(device)
        return torch._C.Generator()


class Generator(metaclass=GeneratorClass):
    """Take the place of `torch.Generator`, which needs CUDA for a generator of the GPU."""


def call_module(self: nn.DataParallel[nn.Module], *args: Any, **kwargs: Any) -> Any:
    """Call the module of a DataParallel, as it does where there is one GPU."""
    return self.module(*args, **kwargs)


def check_index(device: Any) -> None:
    """Raise NotImplementedError if a program names another GPU than the first one."""
    if isinstance(device, int) and device > 0:
        device = f"cuda:{device}"
    take_place_of_cuda(device)


def find_accelerator(check_available: bool = False) -> torch.device:
    """Return the kind of device that tensors of the caller's are on."""
    del check_available
    return torch.device("cuda" if sees_cuda(sys._getframe(1)) else NAME)


def make_refusal(name: str, why: str) -> type:
    """Return a class that raises NotImplementedError with the reason when it is called.

    It takes the place of a function too. Of classes programs may ask whether something is an
    instance.
    """

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(f"{name} is not simulated: {why}")

    return type(name, (), {"__init__": refuse})


def sees_cuda(frame: FrameType) -> bool:
    """Return whether a line of a program, or of a package that it uses, asks for a device."""
    return not frame.f_code.co_filename.startswith(SEES_SIMULATED)


@contextlib.contextmanager
def answer_cuda(watch: Watch) -> Iterator[None]:
    """Let `torch.cuda` answer as on the simulated GPU, next to one for each other rank."""
    read_device = vars(FakeTensor)["device"].fget
    init_context = _device.DeviceContext.__init__
    make_fake = FakeTensor.__new__
    get_iterator = DataLoader._get_iterator
    default_device = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)

    def read_device_of_program(tensor: FakeTensor) -> torch.device:
        """Return a tensor's device, under the name by which the caller knows it."""
        where: torch.device = read_device(tensor)
        # without a function mode, as in a compiled step, nothing would translate the name back
        if where.type == NAME and torch._C._len_torch_function_stack():
            return CUDA if sees_cuda(sys._getframe(1)) else where
        return where

    def make_fake_here(
        cls: type[FakeTensor], mode: Any, elements: Tensor, where: Any, *args: Any, **kwargs: Any
    ) -> FakeTensor:
        # what Dynamo traces names devices as the program does
        return make_fake(cls, mode, elements, take_place_of_cuda(where), *args, **kwargs)

    def init_context_here(self: Any, where: Any) -> None:
        # PyTorch puts this mode below `EagerOnGpu`, which therefore does not see its device
        init_context(self, take_place_of_cuda(where))

    def load_here(loader: DataLoader[Any]) -> Any:
        """Return the batches of a loader, made in this process: others know no fake tensors."""
        alone = copy.copy(loader)
        alone.num_workers = alone.timeout = 0
        return get_iterator(alone)

    replacements: list[Replacement] = [
        *CudaAnswers(watch).list_replacements(),
        (FakeTensor, "device", property(read_device_of_program)),
        (FakeTensor, "__new__", make_fake_here),
        (torch, "Generator", Generator),
        (nn.DataParallel, "forward", call_module),
        (_device.DeviceContext, "__init__", init_context_here),
        (DataLoader, "_get_iterator", load_here),
    ]
    # not every release has all of them
    present = [(owner, name, value) for owner, name, value in replacements if hasattr(owner, name)]
    try:
        with replace_attributes(present):
            yield
    finally:
        if getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None) is not default_device:
            torch.set_default_device(None)
