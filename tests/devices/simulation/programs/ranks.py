"""Steps of one rank among several, simulated by the public library. Printed as JSON, by name."""

import json
from functools import partial

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

from framebench.devices import simulate

LAYERS = 4
WIDTH = 2048
RANKS = 8


def make_layers(device):
    """Return equal layers without biases, whose weights have 16 MiB each."""
    layers = [nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)]
    return nn.Sequential(*layers).to(device)


def finish_step(model, device):
    """Return a step of Adam over a small batch."""
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)
    batch = torch.zeros(16, WIDTH, device=device)

    def step():
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()

    return step


def make_sharded_step(device, reshard=True, narrow=False):
    """Divide each layer among the ranks, as FSDP2 does."""
    torch.distributed.init_process_group("nccl")  # as the program does where it runs
    mesh = init_device_mesh("cuda", (RANKS,))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16) if narrow else MixedPrecisionPolicy()
    model = make_layers(device)
    for layer in model:
        fully_shard(layer, mesh=mesh, reshard_after_forward=reshard, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    return finish_step(model, device)


def make_replicated_step(device):
    """Have every rank hold all weights."""
    torch.distributed.init_process_group("nccl")
    model = DistributedDataParallel(make_layers(device))
    return finish_step(model, device)


def make_plain_step(device):
    """Have one GPU alone."""
    return finish_step(make_layers(device), device)


def make_divided_step(device):
    """Divide each pair of layers among the ranks, as tensor parallelism does."""
    torch.distributed.init_process_group("nccl")
    mesh = init_device_mesh("cuda", (RANKS,))
    model = make_layers(device)
    plan = {"0": ColwiseParallel(), "1": RowwiseParallel()}
    plan |= {"2": ColwiseParallel(), "3": RowwiseParallel()}
    return finish_step(parallelize_module(model, mesh, plan), device)


STEPS = {
    "plain": make_plain_step,
    "sharded": make_sharded_step,
    "stay gathered": partial(make_sharded_step, reshard=False),
    "replicated": make_replicated_step,
    "divided": make_divided_step,
    "narrow": partial(make_sharded_step, narrow=True),
}
answers = {}
for name, make_step in STEPS.items():
    simulation = simulate(make_step, "h100-80gb", ranks=1 if name == "plain" else RANKS)
    fields = ("allocated", "between_steps", "kind", "kinds")
    answers[name] = {field: getattr(simulation, field) for field in fields}
print(json.dumps(answers))
