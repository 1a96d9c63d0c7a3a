"""Steps with weights and states of few bits, simulated by the public library. Printed as JSON."""

import json
from functools import partial

import bitsandbytes
import torch
from torch import nn

from framebench.devices import simulate

WIDTH = 4096
ROWS = 2048


def make_linear(device, double):
    """Return a layer with weights of 4 bits."""
    layer = bitsandbytes.nn.Linear4bit(
        WIDTH,
        WIDTH,
        bias=False,
        compute_dtype=torch.bfloat16,
        compress_statistics=double,
        quant_type="nf4",
    )
    return layer.to(device)


def make_qlora_step(device, double=True):
    """Train two matrices of low rank next to frozen weights of 4 bits."""
    base = make_linear(device, double)
    down = nn.Linear(WIDTH, 16, bias=False).to(device, torch.bfloat16)
    up = nn.Linear(16, WIDTH, bias=False).to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW([*down.parameters(), *up.parameters()])
    batch = torch.zeros(ROWS, WIDTH, dtype=torch.bfloat16, device=device, requires_grad=True)

    def step():
        optimizer.zero_grad()
        (base(batch) + up(down(batch))).float().mean().backward()
        batch.grad = None
        optimizer.step()

    return step


def make_forward_pass(device):
    """Multiply a small batch by a weight of 4 bits."""
    base = make_linear(device, double=True)
    batch = torch.zeros(16, WIDTH, dtype=torch.bfloat16, device=device)
    return torch.no_grad()(lambda: base(batch))


def make_step_of(optimizer_class, device):
    """Train a linear layer by an optimizer of bitsandbytes."""
    model = nn.Linear(WIDTH, WIDTH, bias=False).to(device)
    optimizer = optimizer_class(model.parameters())
    batch = torch.zeros(16, WIDTH, device=device)

    def step():
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()

    return step


STEPS = {
    "qlora": make_qlora_step,
    "single": partial(make_qlora_step, double=False),
    "forward": make_forward_pass,
    "adam8bit": partial(make_step_of, bitsandbytes.optim.AdamW8bit),
    "paged": partial(make_step_of, bitsandbytes.optim.PagedAdamW8bit),
}
answers = {}
for name, make_step in STEPS.items():
    simulation = simulate(make_step, "rtx4090-24gb")
    answers[name] = {
        "kinds": simulation.kinds,
        "allocated": simulation.allocated,
        "kind": simulation.kind,
        "is_judged": simulation.interval.is_judged,
    }
print(json.dumps(answers))
