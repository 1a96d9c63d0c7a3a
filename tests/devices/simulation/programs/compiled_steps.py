"""What is simulated of compiled steps. Printed as JSON."""

import json
from collections.abc import Callable

import torch
from torch import nn
from torch._inductor import scheduler
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from framebench.devices import simulate
from framebench.devices.simulation import torch_inductor
from framebench.devices.simulation.torch_compiled import UnsupportedCompilation

ROWS = WIDTH = 1024
Step = Callable[[], object]


def chain(values):
    """Call four operators, each of which saves its input or its output."""
    return values.sin().cos().exp().tanh().sum()


def chain_with_break(values):
    """Make a tensor by an eager operator between two graphs, and keep it to the end."""
    values = values.sin().cos()
    torch._dynamo.graph_break()
    between = torch.ones(ROWS, WIDTH, device=values.device)
    torch._dynamo.graph_break()
    return (values.exp().tanh() * between).sum()


def make_weight_step(function):
    def make_step(device):
        weight = nn.Parameter(torch.randn(ROWS, WIDTH, device=device))
        called = function if function is chain else torch.compile(function)

        def step():
            weight.grad = None
            called(weight).backward()

        return step

    return make_step


def make_compiled_chain(device):
    return make_weight_step(lambda values: chain(values))(device)


def make_layers(device):
    layers = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Dropout(), nn.Flatten()
    )
    return layers.to(device)


def make_network_step(device):
    """Train a compiled network with dropout, batch norm and autocast."""
    model = make_layers(device)
    model.compile()
    optimizer = torch.optim.AdamW(model.parameters())
    batch = torch.randn(8, 3, 32, 32, device=device)

    def step():
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(batch).float().square().mean()
        loss.backward()
        optimizer.step()

    return step


def make_compiled_update(device):
    """Compile the update of an optimizer, whose states Dynamo makes while it traces."""
    weight = nn.Parameter(torch.randn(ROWS, WIDTH, device=device))
    optimizer = torch.optim.AdamW([weight])
    update = torch.compile(optimizer.step)

    def step():
        optimizer.zero_grad()
        chain(weight).backward()
        update()

    return step


def make_flex_step(device):
    """Call causal attention by a kernel that Inductor writes for its mask."""
    tensors = [nn.Parameter(torch.randn(2, 4, 256, 64, device=device)) for _ in range(3)]
    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256, device=device)
    attend = torch.compile(flex_attention)
    return lambda: attend(*tensors, block_mask=mask).sum().backward()


def make_step_with(**options):
    def make_step(device):
        weight = nn.Parameter(torch.randn(ROWS, WIDTH, device=device))
        compiled = torch.compile(chain, **options)
        return lambda: compiled(weight).backward()

    return make_step


def describe(make_step, device="a100-40gb", **options):
    """Return sizes, or why the step is not simulated."""
    try:
        simulation = simulate(make_step, device, **options)
    except UnsupportedCompilation as error:
        return str(error)
    answer = {
        "allocated": simulation.allocated,
        "by_step": simulation.by_step,
        "between_steps": simulation.between_steps,
        "kinds": simulation.kinds,
        "kind": simulation.kind,
    }
    if simulation.watch.is_compiled:
        answer["cores"] = torch_inductor.SimulatedInterface.gpu.device.cores
    return answer


def describe_with_another_inductor():
    """Return what is answered where a release has not what is replaced. It is gone from then on."""
    del scheduler._is_gpu_triton_backend
    return describe(make_compiled_chain)


print(
    json.dumps(
        {
            "eager": describe(make_weight_step(chain)),
            "compiled": describe(make_compiled_chain),
            "on another GPU": describe(make_compiled_chain, "t4-16gb"),
            "with a break": describe(make_weight_step(chain_with_break)),
            "network": describe(make_network_step),
            "update": describe(make_compiled_update),
            "flex": describe(make_flex_step),
            "settings": describe(make_step_with(options={"epilogue_fusion": False})),
            "CUDA graphs": describe(make_step_with(mode="reduce-overhead")),
            "tuned": describe(make_step_with(options={"max_autotune": True})),
            "another backend": describe(make_step_with(backend="aot_eager")),
            "ranks": describe(make_compiled_chain, ranks=2),
            "another Inductor": describe_with_another_inductor(),
        }
    )
)
