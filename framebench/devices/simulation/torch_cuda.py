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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _device
from torch.utils.data import DataLoader

from framebench.devices.catalog import CONTEXT, Device
from framebench.devices.simulation.scope import MODES
from framebench.devices.simulation.torch_device import (
    CUDA,
    NAME,
    SIMULATED,
    GpuStream,
    do_nothing,
    register_backend,
    replace_attribute,
    take_place_of_cuda,
)
from framebench.devices.simulation.torch_gpu import Gpu
from framebench.devices.simulation.torch_snapshot import make_snapshot
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
MEASURED = "only the GPU itself can tell"
BY_DRIVER = "it is the driver's, and no driver is here"
OTHER_POOLS = "only PyTorch's caching allocator is simulated"
REFUSED = {  # functions of torch.cuda, with why they have no answer
    "graph": MODES["reduce-overhead"],
    "graph_pool_handle": MODES["reduce-overhead"],
    "make_graphed_callables": MODES["reduce-overhead"],
    "caching_allocator_alloc": OTHER_POOLS,
    "caching_allocator_delete": OTHER_POOLS,
    "change_current_allocator": OTHER_POOLS,
    "use_mem_pool": OTHER_POOLS,
    "can_device_access_peer": "one GPU is simulated",
    "clock_rate": MEASURED,
    "device_memory_used": MEASURED,
    "list_gpu_processes": MEASURED,
    "memory_usage": MEASURED,
    "power_draw": MEASURED,
    "temperature": MEASURED,
    "utilization": MEASURED,
    "cudart": BY_DRIVER,
    "current_blas_handle": BY_DRIVER,
    "get_stream_from_external": BY_DRIVER,
}
REFUSED_CLASSES = {
    "CUDAGraph": MODES["reduce-overhead"],
    "MemPool": OTHER_POOLS,
    "ExternalStream": BY_DRIVER,
}
LEGACY_TYPES = {  # such as torch.cuda.FloatTensor
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "LongTensor": torch.int64,
    "IntTensor": torch.int32,
    "ShortTensor": torch.int16,
    "CharTensor": torch.int8,
    "ByteTensor": torch.uint8,
    "BoolTensor": torch.bool,
}


@dataclass(frozen=True)
class GpuProperties:
    """What `torch.cuda.get_device_properties` returns; sizes are in bytes."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    max_threads_per_multi_processor: int
    L2_cache_size: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    regs_per_multiprocessor: int
    shared_memory_per_block: int = 49152
    max_threads_per_block: int = 1024
    warp_size: int = 32
    is_integrated: int = 0
    is_multi_gpu_board: int = 0


class MemoryStatistics(dict[str, int]):
    """What `torch.cuda.memory_stats` returns, of what is simulated."""

    def __missing__(self, key: str) -> int:
        raise NotImplementedError(
            f"torch.cuda.memory_stats()[{key!r}] is not simulated; there are {', '.join(self)}"
        )


class CudaAnswers:
    """The functions of `torch.cuda`, by their names, for one simulation."""

    def __init__(self, device: Device, gpu: Gpu, watch: Watch, gpus: int) -> None:
        """Answer as a device of the catalog, of which the machine has so many."""
        self.device = device
        self.gpu = gpu
        self.watch = watch
        self.gpus = gpus
        self.backend = register_backend()

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def device_count(self) -> int:
        return self.gpus

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

    def get_device_properties(self, device: Any = None) -> GpuProperties:
        """Return the GPU's figures from the catalog."""
        check_index(device)
        major, minor = self.gpu.capability
        return GpuProperties(
            name=self.device.title,
            major=major,
            minor=minor,
            total_memory=self.device.memory_bytes,
            multi_processor_count=self.device.cores,
            max_threads_per_multi_processor=self.device.threads_per_core,
            L2_cache_size=self.device.l2_bytes,
            shared_memory_per_block_optin=self.device.shared_memory_per_block,
            shared_memory_per_multiprocessor=self.device.shared_memory_per_core,
            regs_per_multiprocessor=self.device.registers_per_core,
        )

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
        counted["num_ooms"] = 0 if self.watch.refused is None else 1
        return counted

    def memory_summary(self, device: Any = None, abbreviated: bool = False) -> str:
        """Return the statistics as lines."""
        del abbreviated
        lines = [f"{self.device.title}, simulated"]
        lines += [f"{name}: {count:,}" for name, count in self.memory_stats(device).items()]
        return "\n".join(lines)

    def memory_snapshot(self, *_: Any, **__: Any) -> Any:
        return self.snapshot()["segments"]

    def snapshot(self, *_: Any, **__: Any) -> Any:
        """Return what `torch.cuda.memory._snapshot` returns."""
        return make_snapshot(self.watch.allocator, self.watch.labels)

    def dump_snapshot(self, filename: str = "dump_snapshot.pickle", *_: Any, **__: Any) -> None:
        """Write a file for https://pytorch.org/memory_viz."""
        Path(filename).write_bytes(pickle.dumps(self.snapshot()))

    def set_per_process_memory_fraction(self, fraction: float, device: Any = None) -> None:
        """Limit what the allocator may reserve, unless the simulation is to have no limit."""
        check_index(device)
        allocator = self.watch.allocator
        if allocator.settings.limit is not None:
            limit = int(fraction * self.device.memory_bytes)
            allocator.settings = replace(allocator.settings, limit=limit)

    def get_rng_state(self, device: Any = None) -> Tensor:
        check_index(device)
        return self.backend.get_rng_state()

    def get_rng_state_all(self) -> list[Tensor]:
        return [self.backend.get_rng_state() for _ in range(self.gpus)]

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

    def list_replacements(self) -> Iterator[tuple[Any, str, Any]]:
        """Yield the owner, name and value of each attribute that is replaced."""
        for name in dir(type(self)):
            if not name.startswith("_") and hasattr(torch.cuda, name):
                for owner in (torch.cuda, torch.cuda.memory, torch.cuda.random):
                    if hasattr(owner, name):
                        yield owner, name, getattr(self, name)
        for name in (
            "init",
            "ipc_collect",
            "manual_seed",
            "manual_seed_all",
            "reset_accumulated_memory_stats",
            "seed",
            "seed_all",
            "set_rng_state",
            "set_rng_state_all",
        ):
            yield torch.cuda, name, do_nothing
        for name in ("reset_max_memory_allocated", "reset_max_memory_cached"):
            yield torch.cuda, name, self.reset_peak_memory_stats
        for name in ("range_push", "range_pop", "mark"):
            yield torch.cuda.nvtx, name, do_nothing
        yield torch.cuda.memory, "_record_memory_history", do_nothing
        yield torch.cuda.memory, "_snapshot", self.snapshot
        yield torch.cuda.memory, "_dump_snapshot", self.dump_snapshot
        yield torch.cuda, "device", GpuContext
        yield torch.cuda, "device_of", contextlib.nullcontext
        yield torch.backends.cudnn, "is_available", self.is_available
        yield torch.backends.cudnn, "version", lambda: self.gpu.cudnn
        for name, why in REFUSED.items():
            if hasattr(torch.cuda, name):  # not in every release
                yield torch.cuda, name, make_refusal(name, why)
        for name, why in REFUSED_CLASSES.items():
            if hasattr(torch.cuda, name):
                yield torch.cuda, name, type(name, (), {"__init__": make_refusal(name, why)})
        for name, dtype in LEGACY_TYPES.items():
            yield torch.cuda, name, LegacyType(dtype)
        accelerator = getattr(torch, "accelerator", None)
        if accelerator is not None:
            yield accelerator, "current_accelerator", find_accelerator
            for name in (
                "max_memory_allocated",
                "max_memory_reserved",
                "memory_allocated",
                "memory_reserved",
                "memory_stats",
                "reset_peak_memory_stats",
                "device_count",
            ):
                if hasattr(accelerator, name):
                    yield accelerator, name, getattr(self, name)
            if hasattr(accelerator, "empty_cache"):
                yield accelerator, "empty_cache", self.backend.empty_cache
            if hasattr(accelerator, "get_memory_info"):
                yield accelerator, "get_memory_info", self.mem_get_info


class GpuContext:
    """Take the place of the context `torch.cuda.device`."""

    __enter__ = __exit__ = do_nothing

    def __init__(self, device: Any = None) -> None:
        """Check that the device is the simulated one."""
        check_index(device)


class LegacyType:
    """Take the place of a type such as `torch.cuda.FloatTensor`, which makes tensors on the GPU."""

    def __init__(self, dtype: torch.dtype) -> None:
        """Remember the type of the numbers."""
        self.dtype = dtype

    def __call__(self, *arguments: Any) -> Tensor:
        """Return an empty tensor of the sizes that are given, or one of the numbers."""
        if arguments and not all(isinstance(argument, int) for argument in arguments):
            (numbers,) = arguments
            return torch.as_tensor(numbers, dtype=self.dtype, device=SIMULATED)
        return torch.empty(arguments or (0,), dtype=self.dtype, device=SIMULATED)

    def convert(self, tensor: Tensor) -> Tensor:
        """Return the tensor in this type on the GPU, as `tensor.type(...)` does."""
        return tensor.to(SIMULATED, self.dtype)


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


def make_refusal(name: str, why: str) -> Callable[..., NoReturn]:
    """Return a function that raises NotImplementedError with the reason."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(f"torch.cuda.{name} is not simulated: {why}")

    return refuse


def sees_cuda(frame: FrameType) -> bool:
    """Return whether a line of a program, or of a package that it uses, asks for a device."""
    return not frame.f_code.co_filename.startswith(SEES_SIMULATED)


@contextlib.contextmanager
def answer_cuda(device: Device, gpu: Gpu, watch: Watch, gpus: int) -> Iterator[None]:
    """Let `torch.cuda` answer as on a machine with so many GPUs, of which one is simulated."""
    answers = CudaAnswers(device, gpu, watch, gpus)
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

    def restore_default_device() -> None:
        if getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None) is not default_device:
            torch.set_default_device(None)

    with contextlib.ExitStack() as stack:
        stack.callback(restore_default_device)
        replacements = [
            *answers.list_replacements(),
            (FakeTensor, "device", property(read_device_of_program)),
            (FakeTensor, "__new__", make_fake_here),
            (torch, "Generator", Generator),
            (nn.DataParallel, "forward", call_module),
            (_device.DeviceContext, "__init__", init_context_here),
            (DataLoader, "_get_iterator", load_here),
        ]
        for owner, name, value in replacements:
            stack.enter_context(replace_attribute(owner, name, value))
        yield
