"""A device for fake tensors that PyTorch treats as a GPU: it autocasts, fuses dropout and updates
lists of weights.

The CPU build of PyTorch cannot follow autograd on fake *cuda* tensors. It can on a device of one's
own (`PrivateUse1`): the backward pass runs in a thread of its own as on a GPU, host and device
memory differ, and what PyTorch decides by the type of the device is decided as for CUDA:
`native_dropout` (`is_fused_kernel_acceptable` in ATen/native/Dropout.cpp) and optimizers over lists
(`_get_foreach_kernels_supported_devices` in torch/utils/_foreach_utils.py). The rest is put in by
`torch_attention`, `torch_autocast` and `torch_kernels`.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeGuard

import torch
import torch.optim.optimizer as optimizers
from torch import Tensor, nn
from torch._prims_common import suggest_memory_format
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _foreach_utils, backend_registration

NAME = "gpu"
# what programs take from `torch.cuda` itself
OF_CUDA = ("Stream", "Event", "stream", "current_stream", "synchronize")


def is_on_gpu(value: object) -> TypeGuard[Tensor]:
    """Return whether it is a tensor on the simulated device."""
    return isinstance(value, Tensor) and value.device.type == NAME


class Event:
    """An event that has always happened already."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def record(self, *_: Any) -> None: ...

    def wait(self, *_: Any) -> None: ...

    def query(self) -> bool:
        return True

    def synchronize(self) -> None: ...

    def elapsed_time(self, _: Any) -> float:
        return 0.0


class OneStream:
    """A stream. Everything runs in order on one stream, whatever a program asks for."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def wait_stream(self, _: Any) -> None: ...

    def wait_event(self, _: Any) -> None: ...

    def record_event(self, event: Any = None) -> Any:
        return event or Event()

    def synchronize(self) -> None: ...


class Backend:
    """`torch.gpu`: what PyTorch and programs ask of `torch.cuda`.

    States of generators are host memory and have no numbers.
    """

    Stream, Event = OneStream, Event
    _initialized = True
    on_empty_cache: Callable[[], None] = staticmethod(lambda: None)

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

    def manual_seed_all(self, _: int) -> None: ...

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]

    def get_rng_state(self, *_: Any) -> Tensor:
        return torch.empty(16, dtype=torch.uint8)

    def set_rng_state(self, *_: Any) -> None: ...

    def device(self, *_: Any) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    stream = device

    def current_stream(self, *_: Any) -> OneStream:
        return OneStream()

    def synchronize(self, *_: Any) -> None: ...

    def empty_cache(self) -> None:
        self.on_empty_cache()


@cache
def register_backend() -> Backend:
    """Register the device, once per process.

    Raises RuntimeError where another backend has the place.
    """
    backend = Backend()
    backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=backend)
    return backend


# The replacement of each tensor: a single dict while the outermost `_apply` runs, else empty.
REPLACED_TENSORS: list[dict[Tensor, Tensor]] = []


def apply_to_module(
    module: nn.Module, function: Callable[[Tensor], Tensor], recurse: bool = True
) -> nn.Module:
    """Replace nn.Module._apply for tensors that cannot change device or type in place.

    Parameters and buffers are replaced in the order of the original, children first. Those that
    modules share stay shared, since REPLACED_TENSORS keeps the replacements. When the outermost
    call ends, optimizers are given the new parameters.
    """
    is_outermost = not REPLACED_TENSORS
    if is_outermost:
        REPLACED_TENSORS.append({})
    try:
        for child in module.children() if recurse else ():
            child._apply(function)
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is not None:
                    tensors[name] = move(tensor, function, REPLACED_TENSORS[0])  # type: ignore[assignment]
    finally:
        if is_outermost:
            move_weights_of_optimizers(REPLACED_TENSORS.pop())
    return module


def move_weights_of_optimizers(moved: dict[Tensor, Tensor]) -> None:
    """Replace the parameters of every optimizer by those that they became.

    On a real GPU this is not needed, since a parameter that moves stays the same object.
    """
    objects = gc.get_objects()
    # by the type, since `isinstance` would run the `__class__` property of lazy objects
    optimizers_alive = [obj for obj in objects if issubclass(type(obj), torch.optim.Optimizer)]
    for optimizer in optimizers_alive:
        for group in optimizer.param_groups:
            group["params"] = [moved.get(weight, weight) for weight in group["params"]]


def move(
    tensor: Tensor, function: Callable[[Tensor], Tensor], moved: dict[Tensor, Tensor]
) -> Tensor:
    """Return the replacement of a tensor by the function, which is called once for each tensor."""
    if tensor not in moved:
        with torch.no_grad():
            new = function(tensor)
        if isinstance(tensor, nn.Parameter):
            new = nn.Parameter(new, tensor.requires_grad)
        moved[tensor] = new
        moved[new] = new  # a module that two others share is met twice, and has moved
    return moved[tensor]


def autocast_here(init: Callable[..., None]) -> Callable[..., None]:
    """Return an `__init__` by which `torch.autocast("cuda")` is meant for this device."""

    def init_here(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        init(self, NAME if device_type == "cuda" else device_type, *args, **kwargs)

    return init_here


def convolution_layout(values: Tensor, weight: Tensor, _: Any = None) -> torch.memory_format:
    """Return in which order cuDNN computes a convolution: channels last if either operand is.

    `cudnn_conv_suggest_memory_format` in ATen/native/ConvUtils.h.
    """
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(weight.dim())
    if last in (suggest_memory_format(values), suggest_memory_format(weight)):
        return last
    return torch.contiguous_format


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Give an attribute another value for a while."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextlib.contextmanager
def pose_as_gpu(on_empty_cache: Callable[[], None] = lambda: None) -> Iterator[torch.device]:
    """Let modules of fake tensors move between devices, and lists of them be updated as CUDA's
    are.
    """
    backend = register_backend()
    lists = [*_foreach_utils._foreach_supported_types, FakeTensor, nn.Parameter]
    autocast = torch.amp.autocast_mode.autocast
    replacements = [
        (backend, "on_empty_cache", on_empty_cache),
        (nn.Module, "_apply", apply_to_module),
        (_foreach_utils, "_foreach_supported_types", lists),
        (optimizers, "_foreach_supported_types", lists),
        (autocast, "__init__", autocast_here(autocast.__init__)),
        (torch.cuda, "empty_cache", on_empty_cache),
        (torch._C, "_conv_determine_backend_memory_format", convolution_layout),
    ]
    replacements += [(torch.cuda, name, getattr(backend, name)) for name in OF_CUDA]
    with contextlib.ExitStack() as stack:
        for owner, name, value in replacements:
            stack.enter_context(replaced(owner, name, value))
        yield torch.device(NAME, 0)
