import contextlib
import json
from types import SimpleNamespace

import numpy as np
import torch
import torchao.optim.cpu_offload as library

from framebench import adapters
from framebench.adapters.torch import SWITCHES, offload
from framebench.suite.selectors import parse


class Stream:
    # everything is done at once, in the order in which it was asked for
    def wait_stream(self, other):
        pass

    def wait_event(self, event):
        pass

    def synchronize(self):
        pass

    def record_event(self):
        return self


torch.cuda.Stream = torch.cuda.current_stream = Stream
torch.cuda.stream = lambda stream: contextlib.nullcontext()
torch.Tensor.record_stream = lambda tensor, stream: None
empty_like = torch.empty_like
torch.empty_like = lambda tensor, pin_memory=False, **options: empty_like(tensor, **options)
library.get_available_devices = lambda: ["cpu", "cuda"]


def stepped(strategy):
    adapter = adapters.load(parse(f"transformer/torch/train/{strategy}/b4/tiny"))
    adapter.build()
    adapter.step()
    adapter.step()
    adapter.restore()  # and its optimizer knows
    adapter.step()
    values = dict(adapter.weights()) | {f"{s.kind} {s.name}": s.array for s in adapter.states()}
    return adapter, values


_, plain = stepped("fp32")
found = {}
for name in ("offload_streamed", "accumulate+offload_streamed", "optimizer_offload", "accumulate+optimizer_offload"):
    adapter, values = stepped(name)
    found[name] = sorted(values) == sorted(plain) and all(np.allclose(values[k], plain[k], rtol=1e-4, atol=1e-7) for k in plain)
    if name == "offload_streamed":
        streamed = adapter


def copies(stream):
    return [
        SimpleNamespace(name=name, device_resource_id=stream)
        for name in ("Memcpy DtoH (Device -> Pinned)", "Memcpy HtoD (Pinned -> Device)")
        for _ in range(1000)
    ]


kernel = SimpleNamespace(name="ampere_sgemm", device_resource_id=7)
for name, events in (("streams", [kernel, *copies(13)]), ("one stream", [kernel, *copies(7)]), ("no copies", [kernel])):
    offload.record_device_events = lambda run, events=events: (run.one_step(), events)[1]
    effect = streamed.judge_effect()
    found[name] = effect.proven
    counts = {k: effect.evidence[k] for k in ("tensors_sent", "tensors_returned")}
found["all came back"] = counts["tensors_sent"] == counts["tensors_returned"] > 0
streamed.recipe.contexts = []
offload.record_device_events = lambda run: (run.one_step(), [kernel, *copies(13)])[1]
found["no hooks"] = streamed.judge_effect().proven


def moments(where):
    weight = torch.nn.Parameter(torch.empty(100, 100, device="meta"))
    small = torch.nn.Parameter(torch.empty(10, device="meta"))
    state = {weight: {"exp_avg": torch.empty(100, 100, device=where)}, small: {"exp_avg": torch.empty(10, device="meta")}}
    run = SimpleNamespace(
        packages={},
        torch_device=torch.device("meta"),
        recipe=SimpleNamespace(),
        parameters=lambda: [weight, small],
        optimizer=SimpleNamespace(state=state),
    )
    return SWITCHES["optimizer_offload"](run).judge({}).proven


found["moments on the host"], found["moments on the device"] = moments("cpu"), moments("meta")
print(json.dumps(found))
