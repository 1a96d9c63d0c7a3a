"""A vision transformer in a compiled training step, as torchao's benchmark of optimizers has it.

    python -m studies.compiled_steps.torch_vit ROW DEVICE

Printed as JSON: the bytes in use at the peak, compiled and eager. Written after the description of
timm's vit_huge_patch14_224 and of benchmarks/benchmark_low_bit_adam.py in torchao.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import bitsandbytes
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchao import optim

from framebench.devices.catalog import find
from framebench.devices.simulation.torch_simulate import Step, simulate

BATCH = 8
WIDTH, HEADS, DEPTH, PATCH, SIZE, CLASSES = 1280, 16, 32, 14, 224, 45
RELEASE = (2, 4)  # of PyTorch, by torchao's page: of the choice of attention and of cuBLAS
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": partial(torch.optim.AdamW, fused=True),
    "adamw-4bit": optim.AdamW4bit,
    "adamw-fp8": optim.AdamWFp8,
    "adamw-8bit-bnb": bitsandbytes.optim.AdamW8bit,
}


class Block(nn.Module):
    """Attention and a feed-forward network, each after its norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.projection = nn.Linear(WIDTH, WIDTH)
        self.norm_2 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.wide = nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.norm_1(x))
        hidden: Tensor = self.narrow(F.gelu(self.wide(self.norm_2(x))))
        return x + hidden

    def attend(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(x).reshape(batch, length, 3, HEADS, width // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(query, key, value)
        projected: Tensor = self.projection(attended.transpose(1, 2).reshape(batch, length, width))
        return projected


class VisionTransformer(nn.Module):
    """ViT-H/14 with a class token."""

    def __init__(self) -> None:
        super().__init__()
        tokens = (SIZE // PATCH) ** 2 + 1
        self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.class_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.positions = nn.Parameter(torch.zeros(1, tokens, WIDTH))
        self.blocks = nn.Sequential(*(Block() for _ in range(DEPTH)))
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1) + self.positions
        logits: Tensor = self.head(self.norm(self.blocks(x))[:, 0])
        return logits


def make_step(device: torch.device, row: str, is_compiled: bool) -> Step:
    """Build the model and return its step: images come from the host in each."""
    model = VisionTransformer().to(device)
    if is_compiled:
        model.compile(fullgraph=True)
    optimizer = OPTIMIZERS[row](model.parameters())

    def step() -> None:
        images = torch.empty(BATCH, 3, SIZE, SIZE).to(device)
        labels = torch.empty(BATCH, dtype=torch.long).to(device)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def main(row: str, device: str) -> None:
    """Print what both steps have in use at most."""
    answers: dict[str, Any] = {"pytorch": torch.__version__}
    for name, is_compiled in (("compiled", True), ("eager", False)):
        build = partial(make_step, row=row, is_compiled=is_compiled)
        simulation = simulate(build, find(device), release=RELEASE)
        answers[f"{name}_bytes"] = max(simulation.by_step)
    print(json.dumps(answers))


if __name__ == "__main__":
    main(*sys.argv[1:])
