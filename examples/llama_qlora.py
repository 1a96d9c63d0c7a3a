"""What QLoRA of Llama 7B needs on a GPU, which need not be here: `framebench.devices.simulate`.

    pip install "PATH_OF_THE_CHECKOUT[devices]" bitsandbytes
    python examples/llama_qlora.py rtx3090-24gb

Weights have 4 bits (NF4, double quantization) and stay as they are. Next to each linear layer of a
block, two matrices of rank 16 in bfloat16 are trained by AdamW. The shape is that of Llama 7B; no
weights are loaded, since a simulation computes nothing.
"""

from __future__ import annotations

import sys
from functools import partial

import bitsandbytes
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from framebench.devices import GiB, simulate

WIDTH, LAYERS, HEADS, FEED_FORWARD, VOCABULARY = 4096, 32, 32, 11008, 32000
RANK = 16
LENGTH = 2048  # tokens of a text


class QLoraLinear(nn.Module):
    """A frozen weight of 4 bits, and a trained product of two thin matrices next to it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.base = bitsandbytes.nn.Linear4bit(
            inputs, outputs, bias=False, compute_dtype=torch.bfloat16, quant_type="nf4"
        )
        self.down = nn.Linear(inputs, RANK, bias=False, dtype=torch.bfloat16)
        self.up = nn.Linear(RANK, outputs, bias=False, dtype=torch.bfloat16)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.base(values) + self.up(self.down(values))


def rotate(values: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """Return queries or keys with the positions of their tokens (rotary embeddings)."""
    first, second = values.chunk(2, dim=-1)
    turned = torch.cat((-second, first), dim=-1)
    return values * angles.cos() + turned * angles.sin()


class Block(nn.Module):
    """A layer of Llama: attention and a gated feed-forward network."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention = nn.RMSNorm(WIDTH, dtype=torch.bfloat16)
        self.query, self.key, self.value, self.output = (
            QLoraLinear(WIDTH, WIDTH) for _ in range(4)
        )
        self.before_feed_forward = nn.RMSNorm(WIDTH, dtype=torch.bfloat16)
        self.gate = QLoraLinear(WIDTH, FEED_FORWARD)
        self.rise = QLoraLinear(WIDTH, FEED_FORWARD)
        self.fall = QLoraLinear(FEED_FORWARD, WIDTH)

    def attend(self, values: torch.Tensor) -> torch.Tensor:
        heads = []
        for layer in (self.query, self.key, self.value):
            heads.append(layer(values).unflatten(-1, (HEADS, -1)).transpose(1, 2))
        query, key, value = heads
        angles = torch.zeros(LENGTH, WIDTH // HEADS, dtype=values.dtype, device=values.device)
        query, key = rotate(query, angles), rotate(key, angles)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.output(mixed.transpose(1, 2).flatten(2))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        values = values + self.attend(self.before_attention(values))
        normed = self.before_feed_forward(values)
        return values + self.fall(functional.silu(self.gate(normed)) * self.rise(normed))


class Llama(nn.Module):
    """Llama 7B with frozen embeddings in bfloat16."""

    def __init__(self, recompute: bool) -> None:
        super().__init__()
        self.recompute = recompute
        self.embedding = nn.Embedding(VOCABULARY, WIDTH, dtype=torch.bfloat16)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH, dtype=torch.bfloat16)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False, dtype=torch.bfloat16)
        for name, weight in self.named_parameters():
            weight.requires_grad_(".up." in name or ".down." in name)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        values = self.embedding(tokens)
        for block in self.blocks:
            if self.recompute:
                values = checkpoint(block, values, use_reentrant=False)
            else:
                values = block(values)
        return self.head(self.norm(values))


def make_step(device: torch.device, batch: int, recompute: bool):
    """Return a training step of so many texts."""
    model = Llama(recompute).to(device)
    optimizer = torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad])
    tokens = torch.zeros(batch, LENGTH, dtype=torch.long, device=device)

    def step() -> None:
        optimizer.zero_grad()
        logits = model(tokens)[:, :-1].float()
        functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()

    return step


if __name__ == "__main__":
    device = sys.argv[1] if len(sys.argv) > 1 else "rtx3090-24gb"
    for recompute in (False, True):
        make = partial(make_step, batch=1, recompute=recompute)
        step = simulate(make, device, limit=2**40)  # answered, too, where the device has less
        words = "with" if recompute else "without"
        print(f"{words} checkpointing: {step.needs / GiB:.1f} GiB at batch 1 on {device}")
