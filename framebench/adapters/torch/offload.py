"""How PyTorch switches on the strategies of `framebench/strategies/offload.py`, and what proves that they were on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from framebench.adapters.base import Switches
from framebench.adapters.proof import Evidence, Proof, above, at_least, below, equal_to, expect, other_than
from framebench.adapters.torch.adapter import TorchAdapter, make_optimizer
from framebench.adapters.torch.observe import parts, unique_bytes
from framebench.adapters.torch.quantized import beside as package
from framebench.models.spec import Optimizer

switch = Switches()
LEAST = 4096  # what is smaller stays: bytes of a saved tensor; numbers of a weight, as torchao has it
AHEAD = 8  # saved tensors that are on their way back before they are asked for


@switch
def offload(run: TorchAdapter) -> Proof:
    """Save tensors in host memory, by hooks over ours, which then see none that is saved on the device."""
    run.recipe.contexts.append(partial(torch.autograd.graph.save_on_cpu, pin_memory=True))
    return expect({"saved_tensors": 0, "operators.copy_": above("blocks")})


@dataclass(eq=False)
class _Moved:
    """A saved tensor in pinned memory, and again on the device while it is on its way back."""

    place: int  # among those of its forward pass
    host: Tensor
    device: torch.device
    left: torch.cuda.Event
    asked: bool = False
    again: Tensor | None = None
    arrived: torch.cuda.Event | None = None


class Streams:
    """One for copies to the host and one for those back, beside the computation's; and what went over them."""

    def __init__(self) -> None:
        self.out, self.back = torch.cuda.Stream(), torch.cuda.Stream()
        self.sent = self.returned = self.ahead = 0


class _Streamed(torch.autograd.graph.saved_tensors_hooks):
    """Of one forward pass. The allocator gives the memory of a tensor to others once its copy is done (`record_stream`). The
    backward pass asks in nearly the opposite order: the tensors before the one it asks for set out at once."""

    def __init__(self, streams: Streams, lasting: Iterable[Tensor]) -> None:
        super().__init__(self.pack, self.unpack)
        self.streams = streams
        self.lasting = {part.untyped_storage().data_ptr() for tensor in lasting for part in parts(tensor)}
        self.moved: list[_Moved] = []

    def pack(self, tensor: Tensor) -> Tensor | _Moved:
        if tensor.untyped_storage().data_ptr() in self.lasting or tensor.nbytes < LEAST:
            return tensor
        out = self.streams.out
        out.wait_stream(torch.cuda.current_stream())
        host = torch.empty_like(tensor, device="cpu", pin_memory=True)
        with torch.cuda.stream(out):
            host.copy_(tensor, non_blocking=True)
        tensor.record_stream(out)
        self.moved.append(_Moved(len(self.moved), host, tensor.device, out.record_event()))
        self.streams.sent += 1
        return self.moved[-1]

    def unpack(self, saved: Tensor | _Moved) -> Tensor:
        if isinstance(saved, Tensor):
            return saved
        self.streams.ahead += saved.again is not None
        saved.asked = False  # a graph that is kept asks twice
        for moved in reversed(self.moved[max(0, saved.place - AHEAD) : saved.place + 1]):
            if not moved.asked and moved.again is None:
                self.fetch(moved)
        tensor, saved.again, saved.asked = saved.again, None, True
        assert tensor is not None
        assert saved.arrived is not None
        now = torch.cuda.current_stream()
        now.wait_event(saved.arrived)
        tensor.record_stream(now)
        self.streams.returned += 1
        return tensor

    def fetch(self, moved: _Moved) -> None:
        back = self.streams.back
        back.wait_event(moved.left)
        with torch.cuda.stream(back):
            moved.again = moved.host.to(moved.device, non_blocking=True)
        moved.arrived = back.record_event()


@switch
def offload_streamed(run: TorchAdapter) -> Proof:
    streams = Streams()
    run.recipe.contexts.append(lambda: _Streamed(streams, run.lasting()))

    def count_copies(_: Evidence) -> Evidence:
        streams.sent = streams.returned = streams.ahead = 0
        to_host, to_device = _copies_beside(device_events(run))
        return {
            "copies_beside_to_host": to_host,
            "copies_beside_to_device": to_device,
            "tensors_sent": streams.sent,
            "tensors_returned": streams.returned,
            "tensors_ahead": streams.ahead,
        }

    proof = expect(
        saved_tensors=0,  # on the device, but for weights and what is small
        tensors_sent=above("blocks"),
        # what left came back, most of it before it was asked for
        tensors_returned=(above(0), below("tensors_ahead", times=2)),
        # on streams that compute nothing
        copies_beside_to_host=at_least("tensors_sent"),
        copies_beside_to_device=at_least("tensors_returned"),
    )
    return proof.counting(count_copies)


def device_events(run: TorchAdapter) -> list[Any]:
    """Return what the device did in one more step."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        run.one_step()
        run.synchronize()
    return [event for event in seen.events() or () if event.device_type == DeviceType.CUDA]


def _copies_beside(events: Iterable[Any]) -> tuple[int, int]:
    """Count copies to the host and copies back on streams where no kernel ran, by the names that CUPTI's records have."""
    events = list(events)
    computing = {e.device_resource_id for e in events if not e.name.startswith(("Memcpy", "Memset"))}
    others = [e.name for e in events if e.device_resource_id not in computing]
    return sum(name.startswith("Memcpy DtoH") for name in others), sum(name.startswith("Memcpy HtoD") for name in others)


@switch
def optimizer_offload(run: TorchAdapter) -> Proof:
    library = package(run, "torchao.optim")

    class Offloaded(library.CPUOffloadOptimizer):  # type: ignore[misc, name-defined]
        """With its states under the device's weights, as other optimizers have them."""

        @property
        def state(self) -> dict[nn.Parameter, dict[str, Any]]:
            held = {p: optimizer.state[self.param_d2h_map[p]] for p, optimizer in self.optim_dict.items()}
            return held | (self.d_opt.state if self.d_opt else {})

        def copy_weights(self) -> None:
            with torch.no_grad():
                for p, held in self.param_d2h_map.items():
                    held.copy_(p)

    def least() -> int:
        """Return how many numbers a weight that goes must have. Where none has so many, all go."""
        return LEAST if any(p.numel() >= LEAST for p in run.parameters()) else 0

    def make(o: Optimizer, params: Iterable[nn.Parameter], **options: Any) -> Any:
        made = Offloaded(params, lambda groups, **_: make_optimizer(o, groups, **options), minimal_size=least())
        run.on_restore.append(made.copy_weights)
        return made

    run.recipe.optimizer = make

    def count_moments(_: Evidence) -> Evidence:
        moments, large = [], []
        for p, state in run.optimizer.state.items():
            of_weight = [s for s in state.values() if isinstance(s, Tensor) and s.ndim]
            moments += of_weight
            if p.numel() >= least():
                large += of_weight
        return {
            "state_bytes_on_host": unique_bytes([s for s in moments if s.device.type == "cpu"]),
            "state_bytes": unique_bytes(moments),
            "large_moments": len(large),
            "large_moments_on_host": sum(s.device.type == "cpu" for s in large),
            "weights_elsewhere": sum(p.device != run.where for p in run.parameters()),
            "device": run.where.type,
        }

    # every moment of a large weight is in host memory, and every weight on the device
    proof = expect(
        device=other_than("cpu"),
        weights_elsewhere=0,
        large_moments=above(0),
        large_moments_on_host=equal_to("large_moments"),
    )
    return proof.counting(count_moments)
