"""Make a device for fake tensors that PyTorch treats as a GPU.

On it PyTorch autocasts, fuses dropout and updates lists of weights as on CUDA.

The CPU build of PyTorch cannot run autograd on fake *cuda* tensors. It can on a custom device
(`PrivateUse1`). There host and device memory differ, as on a GPU. PyTorch then decides as for CUDA
on `native_dropout` (`is_fused_kernel_acceptable` in ATen/native/Dropout.cpp) and on optimizers over
lists (`_get_foreach_kernels_supported_devices` in torch/utils/_foreach_utils.py).
`torch_attention`, `torch_autocast` and `torch_kernels` have the other decisions.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, TypeGuard

import torch
import torch.optim.optimizer as optimizers
from torch import Tensor, nn
from torch._prims_common import suggest_memory_format
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _foreach_utils, backend_registration

from framebench.adapters.torch.fake_modules import convert_module
from framebench.devices.simulation.allocator import DEFAULT_STREAM, Allocator

NAME = "gpu"
SIMULATED = torch.device("privateuseone", 0)  # its name before a simulation has named it
CUDA = torch.device("cuda", 0)  # the simulated device, under the name by which programs know it
# attributes of `torch.cuda` that the device has too, and that programs use directly
OF_CUDA = ("Stream", "Event", "stream", "current_stream", "synchronize", "empty_cache")
Replacement = tuple[Any, str, Any]  # an owner, the name of its attribute, and another value


def is_on_gpu(value: object) -> TypeGuard[Tensor]:
    """Return whether it is a tensor on the simulated device."""
    return isinstance(value, Tensor) and value.device.type == NAME


def take_place_of_cuda(value: Any) -> Any:
    """Return the simulated device for a name of CUDA's, such as `cuda:0`, and else the value.

    Raises NotImplementedError for another GPU than the first.
    """
    if not isinstance(value, str | torch.device):
        return value
    name, _, index = str(value).partition(":")
    if name != "cuda":
        return value
    if index.isdigit() and int(index) > 0:
        raise NotImplementedError(
            f"the program names {value}, and one GPU is simulated: cuda:0. Of several GPUs that "
            "share a step the first is simulated, with ranks=..."
        )
    return SIMULATED


def do_nothing(*_: Any, **__: Any) -> None:
    """Do nothing, at once: the device's work is done as soon as it is requested."""


class GpuEvent:
    """An event that has always happened already. How long work takes is not simulated."""

    record = wait = synchronize = do_nothing

    def __init__(self, *_: Any, **__: Any) -> None:
        """Take all options of `torch.cuda.Event`, and ignore them."""

    def query(self) -> bool:
        return True

    def elapsed_time(self, _: Any) -> float:
        return math.nan  # no speed is predicted, and a throughput of it is none either


class GpuStream:
    """A stream of the simulated device, whose memory lies in pools of its own.

    Its work is done at once, in the order in which the program requests it.
    """

    numbers = itertools.count(DEFAULT_STREAM)
    wait_stream = wait_event = synchronize = do_nothing

    def __init__(self, *_: Any, **__: Any) -> None:
        """Number the stream; all options of `torch.cuda.Stream` are ignored."""
        self.number = next(self.numbers)

    def record_event(self, event: Any = None) -> Any:
        return event or GpuEvent()

    def query(self) -> bool:
        return True


# a call of it raises the error that is pending in the interpreter, as any call by PyDLL does
raise_pending_error = ctypes.PyDLL(None).PyErr_Occurred
raise_pending_error.restype = ctypes.c_void_p
ERRORS_OF_BACKWARD: list[BaseException] = []  # of the backward pass that runs, the first one first


class Guard(torch._C._acc.DeviceGuard):
    """The guard of the device, which PyTorch asks for its type wherever it changes devices.

    It is also asked while an error of Python, such as a hook's, ends a derivative. Its answer would
    then be taken for a second error, which ends the process without a message. So the first one is
    put aside until the backward pass is over (`raise_errors_of_backward`).
    """

    # while an error is pending, nothing is found in an object that has attributes of its own
    __slots__ = ()

    def type_(self) -> Any:
        try:
            raise_pending_error()
        except BaseException as error:
            ERRORS_OF_BACKWARD.append(error)
        return torch._C._autograd.DeviceType.PrivateUse1


class Backend:
    """The module `torch.gpu`: it answers what PyTorch and programs ask of `torch.cuda`.

    States of generators are host memory and have no numbers.
    """

    Stream, Event = GpuStream, GpuEvent
    _initialized = True
    manual_seed_all = set_rng_state = synchronize = set_device = do_nothing

    def __init__(self) -> None:
        """Begin on the default stream, without an allocator."""
        self.default = GpuStream()  # the first one
        self.current = self.default
        self.allocator: Allocator | None = None  # of the simulation that runs

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return True

    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return 1

    def _is_in_bad_fork(self) -> bool:
        return False

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]

    def get_rng_state(self, *_: Any) -> Tensor:
        return torch.empty(16, dtype=torch.uint8)

    def device(self, *_: Any) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def stream(self, stream: GpuStream | None) -> Iterator[None]:
        """Make a stream the current one in this context."""
        before = self.current
        self.select(stream or before)
        try:
            yield
        finally:
            self.select(before)

    def select(self, stream: GpuStream) -> None:
        """Make a stream the current one."""
        self.current = stream
        if self.allocator:
            self.allocator.stream = stream.number

    def current_stream(self, *_: Any, **__: Any) -> GpuStream:
        return self.current

    def empty_cache(self) -> None:
        if self.allocator:
            self.allocator.empty_cache()


@cache
def register_backend() -> Backend:
    """Register the device, once per process.

    Raises RuntimeError if another backend has the place.
    """
    backend = Backend()
    backend_registration._setup_privateuseone_for_python_backend(
        NAME, backend_module=backend, device_guard=Guard()
    )
    return backend


def raise_errors_of_backward(run_backward: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs autograd's engine, and raises the error that was put aside.

    The engine has no error to raise then, which is a SystemError.
    """

    def run(*args: Any, **kwargs: Any) -> Any:
        ERRORS_OF_BACKWARD.clear()
        try:
            return run_backward(*args, **kwargs)
        except SystemError:
            if not ERRORS_OF_BACKWARD:
                raise
            raise ERRORS_OF_BACKWARD[0] from None
        finally:
            ERRORS_OF_BACKWARD.clear()

    return run


def choose_convolution_layout(values: Tensor, weight: Tensor, _: Any = None) -> torch.memory_format:
    """Return the memory format in which cuDNN convolves: channels last if either operand has it.

    `cudnn_conv_suggest_memory_format` in ATen/native/ConvUtils.h.
    """
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(weight.dim())
    if last in (suggest_memory_format(values), suggest_memory_format(weight)):
        return last
    return torch.contiguous_format


@contextlib.contextmanager
def replace_attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Give an attribute another value in this context."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextlib.contextmanager
def replace_attributes(replacements: Iterable[Replacement]) -> Iterator[None]:
    """Give several attributes other values in this context."""
    with contextlib.ExitStack() as stack:
        for owner, name, value in replacements:
            stack.enter_context(replace_attribute(owner, name, value))
        yield


@contextlib.contextmanager
def pose_as_gpu(allocator: Allocator) -> Iterator[torch.device]:
    """Make PyTorch treat the simulated device as it treats CUDA, and yield that device.

    In this context modules of fake tensors can be moved to the device, and optimizers update lists
    of them at once. `autocast("cuda")` applies to the device, convolutions choose their memory
    layout as on CUDA, and the attributes of `torch.cuda` that OF_CUDA names are the device's.
    `allocator` learns which stream is current, and when the cache is emptied.
    """
    backend = register_backend()
    lists = [*_foreach_utils._foreach_supported_types, FakeTensor, nn.Parameter]
    autocast = torch.amp.autocast_mode.autocast
    init = autocast.__init__

    def autocast_here(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        # `torch.autocast("cuda")` is meant for this device
        init(self, NAME if device_type == "cuda" else device_type, *args, **kwargs)

    replacements = [
        (backend, "allocator", allocator),
        (nn.Module, "_apply", convert_module),
        (_foreach_utils, "_foreach_supported_types", lists),
        (optimizers, "_foreach_supported_types", lists),
        (autocast, "__init__", autocast_here),
        (torch._C, "_conv_determine_backend_memory_format", choose_convolution_layout),
    ]
    engine = "_engine_run_backward"
    if hasattr(torch.autograd, engine):  # older releases call the engine by themselves
        run_backward = raise_errors_of_backward(getattr(torch.autograd, engine))
        replacements.append((torch.autograd, engine, run_backward))
    replacements += [(torch.cuda, name, getattr(backend, name)) for name in OF_CUDA]
    with replace_attributes(replacements):
        yield torch.device(NAME, 0)
