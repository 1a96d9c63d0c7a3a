"""Steps as a training repository writes them, simulated by the public library.

Printed as JSON, by the name of the function.
"""

from __future__ import annotations

import json
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from framebench.devices import DoesNotFit, simulate
from framebench.devices.simulation.torch_simulate import Simulation

WIDTH = 1024
ROWS = 64


def make_linear_step(device: torch.device) -> Callable[[], None]:
    """One linear layer without a bias and AdamW; the loss is read as a logger does."""
    model = nn.Linear(WIDTH, WIDTH, bias=False).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    batch = torch.randn(ROWS, WIDTH, device=device)
    losses: list[float] = []

    def step() -> None:
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    return step


def make_converted_step(device: torch.device) -> Callable[[], None]:
    """A convolution whose weights are converted after they were made, as `model()` of many does."""
    model = nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3, bias=False))
    model = model.to(device).to(torch.bfloat16).to(memory_format=torch.channels_last)
    batch = torch.randn(4, 3, 32, 32, device=device, dtype=torch.bfloat16)
    return lambda: model(batch).float().mean().backward()


def make_scaled_step(device: torch.device) -> Callable[[], None]:
    """Mixed precision by hand: autocast, a scaler, clipping."""
    model = nn.Linear(WIDTH, WIDTH).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda")
    batch = torch.randn(ROWS, WIDTH, device=device)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = model(batch).float().square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

    return step


def make_resampled_step(device: torch.device) -> Callable[[], None]:
    """Weights that are drawn until all are within bounds, as a truncated normal distribution is."""
    weights = torch.randn(WIDTH, device=device)
    while (weights.abs() > 2).any():
        weights = torch.where(weights.abs() > 2, torch.randn_like(weights), weights)
    weights.requires_grad_()
    return lambda: weights.square().sum().backward()


def make_deciding_step(device: torch.device) -> Callable[[], None]:
    """A step that makes another matrix if any number of its batch is positive."""
    batch = torch.randn(ROWS, device=device)
    matrices: list[torch.Tensor] = []

    def step() -> None:
        matrices.clear()
        if (batch > 0).any():
            matrices.append(torch.zeros(WIDTH, WIDTH, device=device))

    return step


def make_compiled_step(device: torch.device) -> Callable[[], None]:
    """A model that is compiled."""
    model = torch.compile(nn.Linear(WIDTH, WIDTH).to(device))
    batch = torch.randn(ROWS, WIDTH, device=device)
    return lambda: model(batch).sum().backward()


def make_decorated_step(device: torch.device) -> Callable[[], None]:
    """A function that is compiled and never called, as packages have some."""

    @torch.compile(dynamic=False)
    def never_called(values: torch.Tensor) -> torch.Tensor:
        return values + 1

    batch = torch.randn(ROWS, WIDTH, device=device, requires_grad=True)
    return lambda: (batch * 2).sum().backward()


def make_quantized_step(device: torch.device) -> Callable[[], None]:
    """Adam with states of 8 bits, whose update torchao compiles."""
    from torchao.optim import AdamW8bit

    model = nn.Linear(WIDTH, WIDTH, bias=False).to(device)
    optimizer = AdamW8bit(model.parameters())
    batch = torch.randn(ROWS, WIDTH, device=device)

    def step() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step


def make_checked_step(device: torch.device) -> Callable[[], None]:
    """A step that checks its batch by numbers."""
    batch = torch.randn(ROWS, WIDTH, device=device, requires_grad=True)

    def step() -> None:
        if batch.max() > 100:
            raise ValueError("too large")
        if not (batch < 100).all():
            raise ValueError("too large")
        assert (batch < 100).all()
        (batch * 2).sum().backward()

    return step


def describe(simulation: Simulation) -> dict[str, Any]:
    """Return what a test looks at."""
    return {
        "allocated": simulation.allocated,
        "reserved": simulation.reserved,
        "needs": simulation.needs,
        "kinds": simulation.kinds,
        "timeline": simulation.timeline,
        "holders": [holder._asdict() for holder in simulation.holders],
        "kind": simulation.kind,
    }


def read_snapshot(simulation: Simulation) -> list[str]:
    """Return the keys of the file for PyTorch's memory viewer."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot.pickle"
        simulation.snapshot(path)
        return sorted(pickle.loads(path.read_bytes()))


def describe_compiled() -> str:
    """Return how the simulation of a compiled step ends."""
    try:
        simulate(make_compiled_step, "a100-40gb")
    except NotImplementedError as error:
        return str(error)
    return "simulated"


def describe_refusal() -> str:
    """Return how a step ends that does not fit."""
    try:
        simulate(make_linear_step, "a100-40gb", limit=4 << 20)
    except DoesNotFit as error:
        return f"{type(error).__name__}: {error}"
    return "fits"


linear = simulate(make_linear_step, "a100-40gb")
print(
    json.dumps(
        {
            "linear": describe(linear),
            "expandable": describe(
                simulate(make_linear_step, "a100-40gb", expandable_segments=True)
            ),
            "converted": describe(simulate(make_converted_step, "h100-80gb")),
            "scaled": describe(simulate(make_scaled_step, "t4-16gb")),
            "resampled": describe(simulate(make_resampled_step, "l4-24gb")),
            "deciding": describe(simulate(make_deciding_step, "l4-24gb")),
            "checked": describe(simulate(make_checked_step, "l4-24gb")),
            "decorated": describe(simulate(make_decorated_step, "l4-24gb")),
            "quantized": describe(simulate(make_quantized_step, "l4-24gb")),
            "compiled": describe_compiled(),
            "snapshot": read_snapshot(linear),
            "refusal": describe_refusal(),
        }
    )
)
