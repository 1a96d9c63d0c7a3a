"""Print whether offloading computes the same, and is proven, on streams that do everything at
once.
"""

import contextlib
import json
from types import SimpleNamespace
from unittest.mock import Mock

import torch
import torchao.optim.cpu_offload as library
from torch.autograd import DeviceType

from framebench import adapters
from framebench.adapters.torch import SWITCHES, offload
from framebench.suite.selectors import parse
from tests.adapters.programs.steps import are_close, read_tensors


class ImmediateStream:
    """A stream and an event, which do everything at once, in the order of the requests."""

    def wait_stream(self, other):
        pass

    wait_event = wait_stream

    def synchronize(self):
        pass

    def record_event(self):
        return self


def replace_cuda():
    empty_like = torch.empty_like

    def make_unpinned(tensor, pin_memory=False, **options):
        return empty_like(tensor, **options)

    torch.cuda.Stream = torch.cuda.current_stream = ImmediateStream
    torch.cuda.stream = Mock(return_value=contextlib.nullcontext())
    torch.Tensor.record_stream = Mock()
    torch.empty_like = make_unpinned
    library.get_available_devices = Mock(return_value=["cpu", "cuda"])


def train(strategy):
    """Return an adapter after some steps."""
    adapter = adapters.load(parse(f"transformer/torch/train/{strategy}/b4/tiny"))
    adapter.build()
    adapter.step()
    adapter.step()
    adapter.restore()  # an offloaded optimizer must take over the weights
    adapter.step()
    return adapter


def make_events(*names, stream):
    options = {"device_resource_id": stream, "device_type": DeviceType.CUDA}
    return [SimpleNamespace(name=name, **options) for name in names]


def judge_copies(adapter, stream, count=1000):
    """Judge a step with so many copies to the host, and back, on a stream; 7 is the kernels'."""
    names = ("Memcpy DtoH (Device -> Pinned)", "Memcpy HtoD (Pinned -> Device)")

    def record(run):
        run.one_step()
        return make_events("sgemm", stream=7) + make_events(*names * count, stream=stream)

    offload.record_events = record
    return adapter.judge_effect()


def judge_moments(device):
    """Return whether it is proven where the moments of a large weight are on this device."""
    weights = [torch.nn.Parameter(torch.empty(size, device="meta")) for size in (10_000, 10)]
    places = (device, "meta")
    state = {p: {"exp_avg": torch.empty_like(p, device=at)} for p, at in zip(weights, places)}
    run = SimpleNamespace(
        packages={},
        torch_device=torch.device("meta"),
        recipe=SimpleNamespace(),
        parameters=Mock(return_value=weights),
        optimizer=SimpleNamespace(state=state),
    )
    return SWITCHES["optimizer_offload"](run).judge({}).proven


replace_cuda()
expected = read_tensors(train("fp32"))
strategies = ("accumulate+offload_streamed", "optimizer_offload", "accumulate+optimizer_offload")
found = {name: are_close(read_tensors(train(name)), expected) for name in strategies}

streamed = train("offload_streamed")
effect = judge_copies(streamed, stream=13)
sent, returned = effect.evidence["tensors_sent"], effect.evidence["tensors_returned"]
found["all came back"] = sent == returned > 0
found["a stream of its own"] = effect.proven
found["the stream that computes"] = judge_copies(streamed, stream=7).proven
found["no copies"] = judge_copies(streamed, stream=13, count=0).proven
streamed.recipe.contexts = []
found["no hooks"] = judge_copies(streamed, stream=13).proven
found["moments on the host"] = judge_moments("cpu")
found["moments on the device"] = judge_moments("meta")
print(json.dumps(found))
