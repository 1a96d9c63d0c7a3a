"""Print whether offloading computes the same, and is proven, on streams that do everything at
once.
"""

import contextlib
import json
from types import SimpleNamespace

import numpy as np
import torch
import torchao.optim.cpu_offload as library

from framebench import adapters
from framebench.adapters.torch import SWITCHES, offload
from framebench.suite.selectors import parse

KERNEL = SimpleNamespace(name="ampere_sgemm", device_resource_id=7)


class ImmediateStream:
    """A stream and an event, which do everything at once, in the order of the requests."""

    def wait_stream(self, other):
        pass

    def wait_event(self, event):
        pass

    def synchronize(self):
        pass

    def record_event(self):
        return self


def replace_cuda():
    empty_like = torch.empty_like
    torch.cuda.Stream = torch.cuda.current_stream = ImmediateStream
    torch.cuda.stream = lambda stream: contextlib.nullcontext()
    torch.Tensor.record_stream = lambda tensor, stream: None
    torch.empty_like = lambda tensor, pin_memory=False, **options: empty_like(tensor, **options)
    library.get_available_devices = lambda: ["cpu", "cuda"]


def train(strategy):
    """Return an adapter after some steps, and its weights and states."""
    adapter = adapters.load(parse(f"transformer/torch/train/{strategy}/b4/tiny"))
    adapter.build()
    adapter.step()
    adapter.step()
    adapter.restore()  # an offloaded optimizer must take over the weights
    adapter.step()
    values = dict(adapter.weights())
    for state in adapter.states():
        values[f"{state.kind} {state.name}"] = state.array
    return adapter, values


def is_close(values, expected):
    if sorted(values) != sorted(expected):
        return False
    return all(np.allclose(values[k], expected[k], rtol=1e-4, atol=1e-7) for k in expected)


def list_copies(stream):
    """Return events of a thousand copies to the host and as many back on a stream."""
    names = ("Memcpy DtoH (Device -> Pinned)", "Memcpy HtoD (Pinned -> Device)")
    return [SimpleNamespace(name=name, device_resource_id=stream) for name in names * 1000]


def judge_events(adapter, events):
    """Judge a step in which the device did this."""

    def record(run):
        run.one_step()
        return events

    offload.record_device_events = record
    return adapter.judge_effect()


def judge_moments(device):
    """Return whether offloading is proven where the moments of a large weight are on this
    device.
    """
    weight = torch.nn.Parameter(torch.empty(100, 100, device="meta"))
    small = torch.nn.Parameter(torch.empty(10, device="meta"))
    state = {
        weight: {"exp_avg": torch.empty(100, 100, device=device)},
        small: {"exp_avg": torch.empty(10, device="meta")},
    }
    run = SimpleNamespace(
        packages={},
        torch_device=torch.device("meta"),
        recipe=SimpleNamespace(),
        parameters=lambda: [weight, small],
        optimizer=SimpleNamespace(state=state),
    )
    return SWITCHES["optimizer_offload"](run).judge({}).proven


replace_cuda()
_, expected = train("fp32")
streamed, values = train("offload_streamed")
found = {"offload_streamed": is_close(values, expected)}
for strategy in (
    "accumulate+offload_streamed",
    "optimizer_offload",
    "accumulate+optimizer_offload",
):
    _, values = train(strategy)
    found[strategy] = is_close(values, expected)

effect = judge_events(streamed, [KERNEL, *list_copies(13)])
found["streams"] = effect.proven
sent, returned = effect.evidence["tensors_sent"], effect.evidence["tensors_returned"]
found["all came back"] = sent == returned > 0
found["one stream"] = judge_events(streamed, [KERNEL, *list_copies(7)]).proven
found["no copies"] = judge_events(streamed, [KERNEL]).proven
streamed.recipe.contexts = []
found["no hooks"] = judge_events(streamed, [KERNEL, *list_copies(13)]).proven

found["moments on the host"] = judge_moments("cpu")
found["moments on the device"] = judge_moments("meta")
print(json.dumps(found))
