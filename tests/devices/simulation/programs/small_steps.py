"""Small steps on simulated cards: figures by the name of the function below. Printed as JSON."""

from __future__ import annotations

import dataclasses
import json
import pickle
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import torch.optim.optimizer as optimizers
from torch import Tensor, nn
from torch.cuda import _memory_viz
from torch.utils.checkpoint import checkpoint

from framebench.devices.catalog import find
from framebench.devices.simulation import torch_attention
from framebench.devices.simulation.blocks import OutOfMemory, Settings
from framebench.devices.simulation.torch_device import replaced
from framebench.devices.simulation.torch_gpu import Gpu
from framebench.devices.simulation.torch_simulate import Simulation, simulate
from framebench.devices.simulation.torch_watch import Watch

FOUND: dict[str, Any] = {}
MIB = 1 << 20
A100, H100, RTX = find("a100-40gb"), find("h100-80gb"), find("rtx3060-12gb")
Made = Callable[[torch.device], Callable[[], object]]


def found(function: Callable[[], Any]) -> Callable[[], Any]:
    FOUND[function.__name__] = function()
    return function


def result(simulation: Simulation) -> dict[str, Any]:
    fields = ("allocated", "reserved", "between_steps", "by_step", "kinds", "peak_phase", "kernels")
    return {name: getattr(simulation, name) for name in fields}


def mlp(optimizer: str = "Adam", wrong: bool = False, **options: Any) -> Made:
    """Three layers without biases: 1024 x 2048, 2048 x 512, 512 x 512."""

    def make(device: torch.device) -> Callable[[], None]:
        widths = ((1024, 2048), (2048, 512), (512, 512))
        model = nn.Sequential(*(nn.Linear(i, o, bias=False) for i, o in widths)).to(device)
        chosen = getattr(torch.optim, optimizer)(model.parameters(), **options)
        x = torch.empty(8, 1024).to(device)

        def step() -> None:
            chosen.zero_grad()
            model(x).sum().backward()
            chosen.step()

        return step

    return make


@found
def adam() -> Any:
    return result(simulate(mlp(), A100))


@found
def adam_without_lists() -> Any:
    """As if the choice of CUDA had been forgotten."""
    with replaced(optimizers, "_get_foreach_kernels_supported_devices", lambda: []):
        return result(simulate(mlp(), A100))


@found
def adam_fused() -> Any:
    return result(simulate(mlp(fused=True), A100))


@found
def adam_on_hopper() -> Any:
    return result(simulate(mlp(), H100))


@found
def adam_without_workspaces() -> Any:
    return result(simulate(mlp(), A100, blas_takes=False))


@found
def momentum() -> Any:
    return result(simulate(mlp("SGD", momentum=0.9, lr=0.1), A100))


@found
def grown() -> Any:
    return result(simulate(mlp(), A100, settings=Settings(expandable_segments=True)))


BATCH, HEADS, LENGTH, WIDTH = 2, 4, 256, 64


def attention(dtype: torch.dtype, dropout: float = 0.0, trains: bool = True) -> Made:
    """Queries, keys and values are leaves."""

    def make(device: torch.device) -> Callable[[], None]:
        shape = BATCH, HEADS, LENGTH, WIDTH
        q, k, v = (
            torch.empty(shape, dtype=dtype, device=device).requires_grad_(trains) for _ in range(3)
        )

        def step() -> None:
            q.grad = k.grad = v.grad = None
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)
            if trains:
                out.backward(torch.empty_like(out))

        return step

    return make


@found
def attention_single() -> Any:
    return result(simulate(attention(torch.float32), A100))


@found
def attention_half() -> Any:
    return result(simulate(attention(torch.bfloat16), A100))


@found
def attention_hopper() -> Any:
    return result(simulate(attention(torch.bfloat16), H100))


@found
def attention_wrong() -> Any:
    """As if the kernel of a CPU had been taken."""
    with replaced(torch_attention, "choose_kernel", lambda call, gpu: "math"):
        return result(simulate(attention(torch.float32), A100))


@found
def attention_in_inference() -> Any:
    def make(device: torch.device) -> Callable[[], None]:
        step = attention(torch.bfloat16, trains=False)(device)
        return torch.inference_mode()(step)

    return result(simulate(make, A100))


def layers(
    run: Callable[[nn.Module, Tensor], Tensor], context: Callable[[], Any] = ExitStack
) -> Made:
    """A layer of 512 x 512 that is used twice, on 256 rows."""

    def make(device: torch.device) -> Callable[[], None]:
        layer = nn.Linear(512, 512, bias=False).to(device)
        x = torch.empty(256, 512, device=device)

        def step() -> None:
            layer.weight.grad = None
            with context():
                loss = run(layer, x).sum()
            loss.backward()

        return step

    return make


@found
def twice() -> Any:
    return result(simulate(layers(lambda layer, x: layer(layer(x))), A100))


@found
def twice_in_autocast() -> Any:
    context = lambda: torch.autocast("cuda", torch.bfloat16)  # noqa: E731
    return result(simulate(layers(lambda layer, x: layer(layer(x)), context), A100))


@found
def normed_in_autocast() -> Any:
    """`layer_norm` is in CUDA's list of float32, and not in that of CPUs."""
    dtypes: list[str] = []

    def run(layer: nn.Module, x: Tensor) -> Tensor:
        out = F.layer_norm(layer(x), (512,))
        dtypes.append(str(out.dtype))
        return out

    simulate(layers(run, lambda: torch.autocast("cuda", torch.bfloat16)), A100, steps=1)
    return dtypes


@found
def dropped() -> Any:
    def make(device: torch.device) -> Callable[[], None]:
        weight = nn.Parameter(torch.empty(MIB, device=device))

        def step() -> None:
            weight.grad = None
            F.dropout(weight, 0.5).sum().backward()

        return step

    return result(simulate(make, A100))


def branches(recomputes: bool) -> Made:
    """Two gradients of 4 MiB meet, in the backward pass or in what it computes again."""

    def make(device: torch.device) -> Callable[[], None]:
        weight = nn.Parameter(torch.empty(MIB, device=device))

        def step() -> None:
            weight.grad = None
            hidden = weight.exp()
            ((hidden * 2).sum() + (hidden * 3).sum()).backward()

        def again() -> None:
            weight.grad = None
            checkpoint(
                lambda w: (w.mul(2) + w.mul(3)).exp(), weight, use_reentrant=False
            ).sum().backward()

        return again if recomputes else step

    return make


@found
def summed() -> Any:
    return result(simulate(branches(False), A100))


@found
def summed_apart() -> Any:
    with replaced(Watch, "may_overwrite", lambda *_: False):
        return result(simulate(branches(False), A100))


@found
def summed_again() -> Any:
    return result(simulate(branches(True), A100))


@found
def in_order() -> Any:
    """Bytes that are asked for: of a model that moves, children's weights first and a shared one
    once; of dropout, the mask.
    """

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.own = nn.Parameter(torch.empty(100))
            self.inner, self.head = nn.Linear(64, 64), nn.Linear(64, 64, bias=False)
            self.head.weight = self.inner.weight
            self.register_buffer("counts", torch.empty(300, dtype=torch.uint8))

    followed: list[bool] = []

    def make(device: torch.device) -> Callable[[], None]:
        model = Outer()
        optimizer = torch.optim.SGD(model.parameters())
        model.to(device)
        followed.append(
            optimizer.param_groups[0]["params"][1] is model.head.weight is model.inner.weight
        )
        x = torch.empty(64, 64, device=device)
        return lambda: F.dropout(model.head(x).relu(), 0.5)

    asked = simulate(make, A100, steps=1).allocator.trace
    return {
        "asked": [event.size for event in asked if event.action == "alloc"],
        "followed": followed,
    }


@found
def recomputed() -> Any:
    def run(layer: nn.Module, x: Tensor) -> Tensor:
        return checkpoint(lambda y: layer(layer(y)).relu(), layer(x), use_reentrant=False)

    return result(simulate(layers(run), A100))


@found
def scaled() -> Any:
    """The optimizer steps, as no gradient is found infinite."""

    def make(device: torch.device) -> Callable[[], None]:
        model = nn.Linear(512, 512, bias=False).to(device)
        optimizer, scaler = torch.optim.Adam(model.parameters()), torch.amp.GradScaler(device.type)
        x = torch.empty(4, 512, device=device)

        def step() -> None:
            optimizer.zero_grad()
            scaler.scale(model(x).sum()).backward()
            scaler.step(optimizer)
            scaler.update()

        return step

    return result(simulate(make, A100))


@found
def on_the_host() -> Any:
    """Saved tensors leave the device; the host's are not counted."""

    def make(device: torch.device) -> Callable[[], None]:
        weight = nn.Parameter(torch.empty(MIB, device=device))

        def step() -> None:
            weight.grad = None
            with torch.autograd.graph.save_on_cpu():
                loss = weight.exp().exp().exp().sum()
            loss.backward()

        return step

    return result(simulate(make, A100))


@found
def layouts() -> Any:
    """A convolution's output and gradients are channels last if one operand is."""
    orders = []

    def make(device: torch.device) -> Callable[[], None]:
        x, w = torch.empty(2, 16, 8, 8, device=device), torch.empty(32, 16, 3, 3, device=device)

        def step() -> None:
            for one, other in ((x, w), (x.to(memory_format=torch.channels_last), w)):
                y = F.conv2d(one, other)
                orders.append(y.is_contiguous(memory_format=torch.channels_last))

        return step

    simulate(make, A100, steps=1)
    return orders


@found
def numbers() -> Any:
    """What a program reads: of what it has written itself the number, else a made-up one."""
    read: list[Any] = []

    def make(device: torch.device) -> Callable[[], None]:
        def step() -> None:
            given = torch.tensor([2.0, 3.0], device=device)
            read.extend(
                (
                    torch.tensor(5.0).item(),
                    given.sum().item(),
                    bool((given > 0).all()),
                    int(given.argmax()),
                )
            )

        return step

    simulate(make, A100, steps=1)
    return read


@found
def too_large() -> Any:
    def make(device: torch.device) -> Callable[[], None]:
        return lambda: torch.empty(13 << 30, dtype=torch.uint8, device=device)

    try:
        simulate(make, RTX)
    except OutOfMemory as error:
        return str(error)


@found
def held() -> Any:
    """The lines that hold most at the peak."""
    holders = simulate(mlp(), A100).holders
    return [
        [
            one.line.rpartition("/")[2].split(":")[0],
            one.line.split()[-1],
            one.shape,
            one.kind,
            one.tensors,
        ]
        for one in holders
    ]


@found
def viewed() -> Any:
    """What PyTorch's own tools read of the snapshot."""
    simulation = simulate(mlp(), A100, steps=2)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "snapshot.pickle"
        simulation.snapshot(file)
        snapshot = pickle.loads(file.read_bytes())
    text = _memory_viz.segsum(snapshot) + _memory_viz.trace(snapshot)
    total = sum(segment["total_size"] for segment in snapshot["segments"])
    page = _memory_viz.trace_plot(snapshot)
    return {
        "total": total,
        "reserved": simulation.reserved,
        "text": text,
        "is_page": "<script" in page,
    }


@found
def kernels() -> Any:
    """The choice, by dtype, width, mask, dropout, and what else is said; on cards of several
    generations and releases.
    """

    def choose(
        dtype: torch.dtype,
        capability: tuple[int, int],
        release: tuple[int, int] = (2, 13),
        width: int = 64,
        mask: bool = False,
        grad: bool = True,
        heads: int = 4,
        **more: Any,
    ) -> str:
        tensors = [
            torch.empty(2, heads, 128, width, dtype=dtype, device="meta", requires_grad=grad)
        ]
        tensors += [
            torch.empty(2, 4, 128, width, dtype=dtype, device="meta", requires_grad=grad)
            for _ in range(2)
        ]
        bias = torch.empty(128, 128, dtype=dtype, device="meta") if mask else None
        options = {"dropout": 0.0, "causal": False, "grouped": heads != 4} | more
        return torch_attention.choose_kernel(
            torch_attention.Call(*tensors, bias, **options), Gpu(capability, release)
        )

    half, bfloat, single, double = torch.float16, torch.bfloat16, torch.float32, torch.float64
    return {
        "single on an A100": choose(single, (8, 0)),
        "half on an A100": choose(bfloat, (8, 0)),
        "half with a mask": choose(bfloat, (8, 0), mask=True),
        "half on an H100": choose(bfloat, (9, 0)),
        "half on an H100, 2.6": choose(bfloat, (9, 0), (2, 6)),
        "half on an H100, 2.9": choose(bfloat, (9, 0), (2, 9)),
        "half on an H100, 2.10": choose(bfloat, (9, 0), (2, 10)),
        "half on an H100, dropout 0.1": choose(bfloat, (9, 0), dropout=0.1),
        "half on an H100, dropout 1/8": choose(bfloat, (9, 0), dropout=0.125),
        "half on a V100": choose(half, (7, 0)),
        "bfloat on a V100": choose(bfloat, (7, 0)),
        "double": choose(double, (9, 0)),
        "single, width 66": choose(single, (8, 0), width=66),
        "half, width 66": choose(bfloat, (8, 0), width=66),
        "half, width 208 on an RTX 4090": choose(bfloat, (8, 9), width=208),
        "half, width 208 without gradients": choose(bfloat, (8, 9), width=208, grad=False),
        "half, width 264": choose(bfloat, (8, 0), width=264),
        "single, grouped, 2.13": choose(single, (8, 0), heads=8),
        "single, grouped, 2.6": choose(single, (8, 0), (2, 6), heads=8),
    }


@found
def releases() -> Any:
    """A product with a bias: the workspace of cuBLASLt is kept, or taken anew by older releases."""

    def make(device: torch.device) -> Callable[[], None]:
        layer = nn.Linear(64, 64).to(device).requires_grad_(False)
        x = torch.empty(64, 64, device=device)
        return lambda: layer(x)

    return {
        str(release): simulate(make, A100, release=release).between_steps
        for release in ((2, 6), (2, 13))
    }


print(json.dumps(FOUND, default=dataclasses.asdict))
