"""PyTorch's switches for the strategies of `framebench/strategies/offload.toml`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import DeviceType

from framebench.adapters.base import Switches
from framebench.adapters.proof import (
    Evidence,
    Proof,
    above,
    at_least,
    below,
    equal_to,
    expect,
    other_than,
)
from framebench.adapters.torch.adapter import TorchAdapter, make_optimizer
from framebench.adapters.torch.observe import find_storages, read_identity
from framebench.adapters.torch.profiled import record_events
from framebench.adapters.torch.quantized import import_package
from framebench.models.spec import Optimizer

switch = Switches()
# smaller tensors stay on the device: saved ones of fewer bytes, weights of fewer numbers (as in
# torchao)
LEAST_OFFLOADED = 4096
AHEAD = 8  # saved tensors that are copied back before the backward pass needs them


@switch
def offload(adapter: TorchAdapter) -> Proof:
    """Save tensors in host memory.

    PyTorch's hooks are called in the place of the observer's, which then sees no saved tensor.
    """
    adapter.recipe.contexts.append(partial(torch.autograd.graph.save_on_cpu, pin_memory=True))
    return expect({"saved_tensors": 0, "operators.copy_": above("blocks")})


@dataclass(eq=False)
class _MovedTensor:
    """A saved tensor in pinned memory, and on the device again once its copy back has begun."""

    place: int  # among the saved tensors of its forward pass
    host: Tensor
    device: torch.device
    copied_to_host: torch.cuda.Event
    is_used: bool = False  # whether the backward pass has had it
    on_device: Tensor | None = None  # until the backward pass takes it
    copied_back: torch.cuda.Event | None = None


class CopyStreams:
    """A stream for copies to the host and one for copies back, with counts of tensors.

    Both streams run next to the stream that computes.
    """

    def __init__(self) -> None:
        """Make both streams on the current device."""
        self.to_host = torch.cuda.Stream()
        self.to_device = torch.cuda.Stream()
        # tensors_ahead: those whose copy back began before the backward pass needed them
        self.counts = Counter(tensors_sent=0, tensors_returned=0, tensors_ahead=0)


class _StreamedSaving(torch.autograd.graph.saved_tensors_hooks):
    """Hooks that move the saved tensors of one forward pass to the host, and back again.

    The backward pass needs the tensors in nearly the opposite order. When it needs one, the copies
    of those that were saved just before it begin, too.
    """

    def __init__(self, streams: CopyStreams, lasting: Iterable[Tensor]) -> None:
        """Set the streams of the copies, and the tensors that stay on the device (`lasting`)."""
        super().__init__(self.pack, self.unpack)
        self.streams = streams
        self.lasting = find_storages(lasting, read_identity)
        self.moved: list[_MovedTensor] = []

    def pack(self, tensor: Tensor) -> Tensor | _MovedTensor:
        """Begin to copy a tensor to the host; lasting and small ones stay on the device."""
        if (
            read_identity(tensor.untyped_storage()) in self.lasting
            or tensor.nbytes < LEAST_OFFLOADED
        ):
            return tensor
        stream = self.streams.to_host
        stream.wait_stream(torch.cuda.current_stream())
        host = torch.empty_like(tensor, device="cpu", pin_memory=True)
        with torch.cuda.stream(stream):
            host.copy_(tensor, non_blocking=True)
        tensor.record_stream(stream)  # keeps its memory until the copy is done
        moved = _MovedTensor(len(self.moved), host, tensor.device, stream.record_event())
        self.moved.append(moved)
        self.streams.counts["tensors_sent"] += 1
        return moved

    def unpack(self, saved: Tensor | _MovedTensor) -> Tensor:
        """Return a tensor on the device, and begin to copy back those that are needed next."""
        if isinstance(saved, Tensor):
            return saved
        if saved.on_device is None:  # also if it was used before: a retained graph unpacks it again
            self.fetch(saved)
        else:
            self.streams.counts["tensors_ahead"] += 1
        self.fetch_ahead(saved)
        tensor = saved.on_device
        assert tensor is not None
        assert saved.copied_back is not None
        saved.on_device = None
        saved.is_used = True
        computing = torch.cuda.current_stream()
        computing.wait_event(saved.copied_back)
        tensor.record_stream(computing)
        self.streams.counts["tensors_returned"] += 1
        return tensor

    def fetch_ahead(self, saved: _MovedTensor) -> None:
        """Begin to copy back the tensors saved just before this one, which are needed next."""
        first = max(0, saved.place - AHEAD)
        for moved in reversed(self.moved[first : saved.place]):
            if not moved.is_used and moved.on_device is None:
                self.fetch(moved)

    def fetch(self, moved: _MovedTensor) -> None:
        """Begin to copy a tensor back to its device."""
        stream = self.streams.to_device
        stream.wait_event(moved.copied_to_host)
        with torch.cuda.stream(stream):
            moved.on_device = moved.host.to(moved.device, non_blocking=True)
        moved.copied_back = stream.record_event()


@switch
def offload_streamed(adapter: TorchAdapter) -> Proof:
    """Save tensors in host memory, with copies on streams of their own."""
    streams = CopyStreams()
    adapter.recipe.contexts.append(lambda: _StreamedSaving(streams, adapter.lasting_tensors()))

    def count_copies() -> Evidence:
        before = streams.counts.copy()
        copies = _count_overlapping_copies(record_events(adapter))
        streams.counts.subtract(before)  # the counts of the recorded step remain
        return copies | dict(streams.counts)

    proof = expect(
        saved_tensors=0,  # on the device, other than weights and small tensors
        tensors_sent=above("blocks"),
        # they came back, more than half of them before they were needed
        tensors_returned=(above(0), below("tensors_ahead", times=2)),
        # on streams that compute nothing
        copies_beside_to_host=at_least("tensors_sent"),
        copies_beside_to_device=at_least("tensors_returned"),
    )
    return proof.counting(count_copies)


def _count_overlapping_copies(events: list[Any]) -> Evidence:
    """Count copies to the host, and back, on streams where no kernel ran.

    The names are those of CUPTI's records.
    """
    on_device = [event for event in events if event.device_type == DeviceType.CUDA]
    streams_with_kernels = set()
    for event in on_device:
        if not event.name.startswith(("Memcpy", "Memset")):
            streams_with_kernels.add(event.device_resource_id)
    to_host = to_device = 0
    for event in on_device:
        if event.device_resource_id not in streams_with_kernels:
            to_host += event.name.startswith("Memcpy DtoH")
            to_device += event.name.startswith("Memcpy HtoD")
    return {"copies_beside_to_host": to_host, "copies_beside_to_device": to_device}


@switch
def optimizer_offload(adapter: TorchAdapter) -> Proof:
    """Keep the optimizer's states in host memory and update the weights there, by torchao."""
    library = import_package(adapter, "torchao.optim")

    class Offloaded(library.CPUOffloadOptimizer):  # type: ignore[misc, name-defined]
        """torchao's optimizer, with states by the device's weights as other optimizers have."""

        @property
        def state(self) -> dict[nn.Parameter, dict[str, Any]]:
            states = {}
            for p, optimizer in self.optim_dict.items():
                states[p] = optimizer.state[self.param_d2h_map[p]]
            if self.d_opt:
                states |= self.d_opt.state
            return states

        def copy_weights(self) -> None:
            """Copy the device's weights, which `restore` has changed, to the host."""
            with torch.no_grad():
                for p, on_host in self.param_d2h_map.items():
                    on_host.copy_(p)

    def make(o: Optimizer, params: Iterable[nn.Parameter], **options: Any) -> Any:
        def make_inner(groups: Any, **_: Any) -> torch.optim.Optimizer:
            return make_optimizer(o, groups, **options)

        optimizer = Offloaded(params, make_inner, minimal_size=find_least_offloaded(adapter))
        adapter.after_restore.append(optimizer.copy_weights)
        return optimizer

    adapter.recipe.optimizer = make
    # every moment of a large weight is in host memory, and every weight on the device
    proof = expect(
        device=other_than("cpu"),
        weights_elsewhere=0,
        large_moments=above(0),
        large_moments_on_host=equal_to("large_moments"),
    )
    return proof.counting(partial(count_moments, adapter))


def find_least_offloaded(adapter: TorchAdapter) -> int:
    """Return the smallest size, in numbers, of a weight whose state goes to the host.

    It is 0 if no weight is large, so that the strategy has an effect on small models too.
    """
    is_any_large = any(p.numel() >= LEAST_OFFLOADED for p in adapter.parameters())
    return LEAST_OFFLOADED if is_any_large else 0


def count_moments(adapter: TorchAdapter) -> Evidence:
    """Count the moments of large weights, those of them on the host, and weights off the device."""
    least = find_least_offloaded(adapter)
    devices: list[str] = []  # of the moments of large weights
    for p, state in adapter.optimizer.state.items():
        if p.numel() < least:
            continue
        for moment in state.values():
            if isinstance(moment, Tensor) and moment.ndim:  # the count of steps has no axis
                devices.append(moment.device.type)
    return {
        "large_moments": len(devices),
        "large_moments_on_host": devices.count("cpu"),
        "weights_elsewhere": sum(p.device != adapter.torch_device for p in adapter.parameters()),
        "device": adapter.torch_device.type,
    }
