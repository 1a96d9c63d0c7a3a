"""A device for tensors without numbers that PyTorch treats as a GPU: it autocasts, fuses dropout and updates lists of weights.

The CPU build of PyTorch cannot follow autograd on fake *cuda* tensors. It can on a device of one's own (`PrivateUse1`): the
backward pass runs in a thread of its own as on a card, host and device memory differ, and what PyTorch decides by the type of
the device is decided as for CUDA: `native_dropout` (`is_fused_kernel_acceptable` in ATen/native/Dropout.cpp) and optimizers
over lists (`_get_foreach_kernels_supported_devices` in torch/utils/_foreach_utils.py). The rest is put in by `torch_attention`,
`torch_autocast` and `torch_kernels`.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch
import torch.optim.optimizer as optimizers
from torch import Tensor, nn
from torch._prims_common import suggest_memory_format
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _foreach_utils, backend_registration

NAME = "gpu"
OF_CUDA = ("Stream", "Event", "stream", "current_stream", "synchronize")  # what programs take from `torch.cuda` itself


class InOrder:
    """A stream. Everything runs in order on one stream, whatever a program asks for."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def wait_stream(self, _: Any) -> None: ...

    def wait_event(self, _: Any) -> None: ...

    def record_event(self, event: Any = None) -> Any:
        return event or Marker()

    def synchronize(self) -> None: ...


class Marker:
    def __init__(self, *_: Any, **__: Any) -> None: ...

    def record(self, *_: Any) -> None: ...

    def wait(self, *_: Any) -> None: ...

    def query(self) -> bool:
        return True

    def synchronize(self) -> None: ...

    def elapsed_time(self, _: Any) -> float:
        return 0.0


class Backend:
    """`torch.gpu`: what PyTorch and programs ask of `torch.cuda`. States of generators are host memory and have no numbers."""

    Stream, Event = InOrder, Marker
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

    def current_stream(self, *_: Any) -> InOrder:
        return InOrder()

    def synchronize(self, *_: Any) -> None: ...

    def empty_cache(self) -> None:
        self.on_empty_cache()


@cache
def backend() -> Backend:
    """Registers the device, once per process. Raises RuntimeError where another backend has the place."""
    made = Backend()
    backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=made)
    return made


MOVED: list[dict[Tensor, Tensor]] = []  # what the outermost `_apply` that runs has moved, and to what


def _apply(module: nn.Module, function: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
    """`nn.Module._apply` for tensors that cannot change their kind in place: weights are replaced, in the same order, children
    first. What is shared stays shared."""
    outermost = not MOVED
    if outermost:
        MOVED.append({})
    try:
        for child in module.children() if recurse else ():
            child._apply(function)
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is not None:
                    tensors[name] = _moved(tensor, function, MOVED[0])  # type: ignore[assignment]
    finally:
        if outermost:
            _follow(MOVED.pop())
    return module


def _follow(moved: dict[Tensor, Tensor]) -> None:
    """On a card a weight that moves is the same object, so an optimizer that has it keeps it."""
    for optimizer in [o for o in gc.get_objects() if issubclass(type(o), torch.optim.Optimizer)]:
        for group in optimizer.param_groups:
            group["params"] = [moved.get(p, p) for p in group["params"]]


def _moved(tensor: Tensor, function: Callable[[Tensor], Tensor], done: dict[Tensor, Tensor]) -> Tensor:
    if tensor not in done:
        with torch.no_grad():
            new = function(tensor)
        done[tensor] = nn.Parameter(new, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else new
        done[done[tensor]] = done[tensor]  # a module that two others share is met twice, and has moved
    return done[tensor]


def _autocast_here(init: Callable[..., None]) -> Callable[..., None]:
    """`torch.autocast("cuda")` is meant for this device."""

    def around(self: Any, device_type: str, *args: Any, **named: Any) -> None:
        init(self, NAME if device_type == "cuda" else device_type, *args, **named)

    return around


def layout(values: Tensor, weight: Tensor, _: Any = None) -> torch.memory_format:
    """In which cuDNN computes a convolution: channels last if either operand is (`cudnn_conv_suggest_memory_format` in
    ATen/native/ConvUtils.h)."""
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(weight.dim())
    either = last is not None and last in (suggest_memory_format(values), suggest_memory_format(weight))
    return last if either and last else torch.contiguous_format


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """An attribute has another value for a while."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextlib.contextmanager
def as_card(on_empty_cache: Callable[[], None] = lambda: None) -> Iterator[torch.device]:
    """Modules of fake tensors move between devices, and lists of them are updated by the operators that CUDA's are."""
    here = backend()
    lists = [*_foreach_utils._foreach_supported_types, FakeTensor, nn.Parameter]
    autocast = torch.amp.autocast_mode.autocast
    with contextlib.ExitStack() as stack:
        for owner, name, value in (
            (here, "on_empty_cache", on_empty_cache),
            (nn.Module, "_apply", _apply),
            (_foreach_utils, "_foreach_supported_types", lists),
            (optimizers, "_foreach_supported_types", lists),
            (autocast, "__init__", _autocast_here(autocast.__init__)),
            (torch.cuda, "empty_cache", on_empty_cache),
            (torch._C, "_conv_determine_backend_memory_format", layout),
            *((torch.cuda, name, getattr(here, name)) for name in OF_CUDA),
        ):
            stack.enter_context(replaced(owner, name, value))
        yield torch.device(NAME, 0)
