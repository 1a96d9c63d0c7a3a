"""Small steps on simulated GPUs: figures by the name of the step. Printed as JSON."""

import copy
import json
import pickle
import tempfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.cuda import _memory_viz
from torch.utils.checkpoint import checkpoint

from framebench.devices.catalog import find
from framebench.devices.simulation import torch_attention
from framebench.devices.simulation.torch_gpu import Gpu
from framebench.devices.simulation.torch_simulate import simulate

MIB = 1 << 20
A100, H100 = find("a100-40gb"), find("h100-80gb")


def make_mlp(device):
    """Train three layers without biases: 1024 x 2048, 2048 x 512, 512 x 512."""
    widths = ((1024, 2048), (2048, 512), (512, 512))
    model = nn.Sequential(*(nn.Linear(i, o, bias=False) for i, o in widths)).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.empty(8, 1024).to(device)

    def step():
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    return step


def make_attention(dtype, trains=True):
    """Return a function that makes a step of attention, of three leaves."""

    def make(device):
        tensors = [torch.empty(2, 4, 256, 64, dtype=dtype, device=device) for _ in range(3)]

        def train():
            for tensor in tensors:
                tensor.requires_grad_().grad = None
            out = F.scaled_dot_product_attention(*tensors, is_causal=True)
            out.backward(torch.empty_like(out))

        @torch.inference_mode()
        def infer():
            F.scaled_dot_product_attention(*tensors, is_causal=True)

        return train if trains else infer

    return make


def make_layer(in_autocast):
    """Return a function that makes a step of a layer of 512 x 512, used twice, on 256 rows."""

    def make(device):
        layer = nn.Linear(512, 512, bias=False).to(device)
        x = torch.empty(256, 512, device=device)

        def step():
            layer.weight.grad = None
            with torch.autocast("cuda", torch.bfloat16) if in_autocast else nullcontext():
                loss = layer(layer(x)).sum()
            loss.backward()

        return step

    return make


def make_product(of_weight, caches):
    """Return a function that makes a step of a matmul by a weight of 1 MiB, or by its double."""

    def make(device):
        weight = nn.Parameter(torch.empty(512, 512, device=device))
        x = torch.empty(256, 512, device=device)

        def step():
            weight.grad = None
            with torch.autocast("cuda", torch.bfloat16, cache_enabled=caches):
                loss = (x @ (weight if of_weight else weight * 2)).sum()
                torch.empty(4 * MIB, device=device)
            loss.backward()

        return step

    return make


def make_elementwise(run):
    """Return a function that makes a step of `run`, which computes a loss of a weight of 4 MiB."""

    def make(device):
        weight = nn.Parameter(torch.empty(MIB, device=device))

        def step():
            weight.grad = None
            run(weight).backward()

        return step

    return make


def drop(weight):
    return F.dropout(weight, 0.5).sum()


def branch(weight):
    """Return a loss whose two branches have gradients that are added up."""
    hidden = weight.exp()
    return (hidden * 2).sum() + (hidden * 3).sum()


def recompute(weight):
    """Return a loss of a sum that the backward pass computes again."""
    return checkpoint(lambda w: (w.mul(2) + w.mul(3)).exp(), weight, use_reentrant=False).sum()


def save_on_host(weight):
    with torch.autograd.graph.save_on_cpu():
        return weight.exp().exp().exp().sum()


def normalize(weight):
    return (F.rms_norm(weight.view(1024, 1024), (1024,)) * 2).sum()


def softplus(weight):
    return (F.mish(weight) * 2).sum()


def make_biased(device):
    layer = nn.Linear(64, 64).to(device).requires_grad_(False)
    x = torch.empty(64, 64, device=device)
    return lambda: layer(x)


def average_copy(device):
    """Keep a moving average of weights in a deep copy, as programs with a teacher do.

    Numbers that a program writes as tensors, before the copy, are what PyTorch freed twice.
    """
    model = nn.Linear(512, 512, bias=False).to(device)
    decays = [torch.tensor(0.9) for _ in range(100)]
    teachers = [copy.deepcopy(model).requires_grad_(False) for _ in decays]

    @torch.no_grad()
    def step():
        for teacher in teachers:
            teacher.weight.lerp_(model.weight, 0.1)

    return step


# by name: the step, the GPU, options of the simulation
STEPS = {
    "averaged copy": (average_copy, A100, {}),
    "adam": (make_mlp, A100, {}),
    "adam without workspaces": (make_mlp, A100, {"blas_takes": False}),
    "attention in float32": (make_attention(torch.float32), A100, {}),
    "attention in bfloat16": (make_attention(torch.bfloat16), A100, {}),
    "attention on Hopper": (make_attention(torch.bfloat16), H100, {}),
    "attention in inference": (make_attention(torch.bfloat16, trains=False), A100, {}),
    "layer": (make_layer(in_autocast=False), A100, {}),
    "layer in autocast": (make_layer(in_autocast=True), A100, {}),
    "product of a weight": (make_product(True, caches=True), A100, {}),
    "product of a weight, uncached": (make_product(True, caches=False), A100, {}),
    "product of values": (make_product(False, caches=True), A100, {}),
    "product of values, uncached": (make_product(False, caches=False), A100, {}),
    "dropout": (make_elementwise(drop), A100, {}),
    "sum of gradients": (make_elementwise(branch), A100, {}),
    "sum of the program": (make_elementwise(recompute), A100, {}),
    "norm": (make_elementwise(normalize), A100, {}),
    "norm, PyTorch 2.8": (make_elementwise(normalize), A100, {"release": (2, 8)}),
    "mish": (make_elementwise(softplus), A100, {}),
    "saved on the host": (make_elementwise(save_on_host), A100, {}),
    "bias": (make_biased, A100, {"release": (2, 13)}),
    "bias, PyTorch 2.6": (make_biased, A100, {"release": (2, 6)}),
}


def run_step(name):
    make, device, options = STEPS[name]
    simulation = simulate(make, device, **options)
    fields = ("allocated", "reserved", "between_steps", "by_step", "kinds")
    answer = {name: getattr(simulation, name) for name in fields}
    return answer | {"kernels": simulation.watch.kernels}


def request_in_order():
    """Return the bytes of each request of a model that moves to the GPU and drops values out.

    The weights of children come first, and a shared one once.
    """

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.own = nn.Parameter(torch.empty(100))
            self.inner, self.head = nn.Linear(64, 64), nn.Linear(64, 64, bias=False)
            self.head.weight = self.inner.weight
            self.register_buffer("counts", torch.empty(300, dtype=torch.uint8))

    followed = []

    def make(device):
        model = Outer()
        optimizer = torch.optim.SGD(model.parameters())
        model.to(device)
        weights = (optimizer.param_groups[0]["params"][1], model.head.weight)
        followed.extend(weight is model.inner.weight for weight in weights)
        x = torch.empty(64, 64, device=device)
        return lambda: F.dropout(model.head(x).relu(), 0.5)

    trace = simulate(make, A100, steps=1).watch.allocator.trace
    sizes = [event.size for event in trace if event.action == "alloc"]
    return {"sizes": sizes, "followed": followed}


def read_in_step():
    """Return what a step reads: numbers, made up unless it wrote them itself; orders; types."""
    read = {}

    def make(device):
        x, w = torch.empty(2, 16, 8, 8, device=device), torch.empty(32, 16, 3, 3, device=device)
        last = x.to(memory_format=torch.channels_last)

        def is_channels_last(values):
            return F.conv2d(values, w).is_contiguous(memory_format=torch.channels_last)

        def step():
            given = torch.rand(2, device=device)
            read["number of its own"] = torch.tensor(5.0).item()
            read["sum"] = given.sum().item()
            read["comparison"] = bool((given > 0).all())
            read["place of the largest"] = int(given.argmax())
            read["convolution is channels last"] = is_channels_last(x)
            read["convolution of channels last is too"] = is_channels_last(last)
            with torch.autocast("cuda", torch.bfloat16):
                read["layer norm in autocast"] = str(F.layer_norm(x, (8,)).dtype)

        return step

    simulate(make, A100, steps=1)
    return read


def view_snapshot():
    """Return what PyTorch's own tools read of a snapshot."""
    simulation = simulate(make_mlp, A100, steps=2)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "snapshot.pickle"
        simulation.snapshot(file)
        snapshot = pickle.loads(file.read_bytes())
    return {
        "total": sum(segment["total_size"] for segment in snapshot["segments"]),
        "reserved": simulation.reserved,
        "text": _memory_viz.segsum(snapshot) + _memory_viz.trace(snapshot),
        "page": _memory_viz.trace_plot(snapshot)[:100],
    }


def choose_kernels():
    """Return the kernel of attention for each call in `attention_calls.json`."""
    kernels = []
    for fields in json.loads(Path(__file__).with_name("attention_calls.json").read_text()):
        device = replace(A100, compute_capability=tuple(fields["gpu"]))
        gpu = Gpu(device, tuple(fields.get("release", (2, 13))))
        kernels.append(torch_attention.choose_kernel(make_attention_call(fields), gpu))
    return kernels


def make_attention_call(fields):
    """Return a call of attention with these fields, on tensors without numbers."""
    options = {"dtype": getattr(torch, fields["dtype"]), "device": "meta"}
    width = fields.get("width", 64)
    query = torch.empty(2, fields.get("heads", 4), 128, width, **options)
    key = torch.empty(2, 4, 128, width, **options)
    value = torch.empty_like(key)
    for tensor in (query, key, value):
        tensor.requires_grad_(fields.get("trains", True))
    mask = torch.empty(128, 128, **options) if fields.get("mask") else None
    dropout = fields.get("dropout", 0.0)
    is_grouped = "heads" in fields
    return torch_attention.AttentionCall(
        query, key, value, mask, dropout, causal=False, grouped=is_grouped
    )


found = {name: run_step(name) for name in STEPS}
for function in (
    request_in_order,
    read_in_step,
    view_snapshot,
    choose_kernels,
):
    found[function.__name__] = function()
print(json.dumps(found))
