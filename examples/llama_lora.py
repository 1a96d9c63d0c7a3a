"""LoRA of a model of the shape of Llama 7B: what does it need on a GPU, which need not be here?

    framebench predict examples/llama_lora.py --batch 1 --device rtx4090-24gb \
        --strategies as-written,checkpoint

The weights are in bfloat16 and stay as they are. Next to each linear layer of a block, two matrices
of rank 16 in bfloat16 are trained by AdamW. No weights are loaded: a prediction computes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.nn import functional

WIDTH, LAYERS, HEADS, FEED_FORWARD, VOCABULARY = 4096, 32, 32, 11008, 32000
RANK = 16
LENGTH = 2048  # tokens of a text

make_linear = partial(nn.Linear, bias=False, dtype=torch.bfloat16)


class LoraLinear(nn.Module):
    """A frozen layer, and a trained product of two thin matrices next to it."""

    def __init__(self, inputs: int, outputs: int, make_base: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.base = make_base(inputs, outputs)
        self.down = make_linear(inputs, RANK)
        self.up = make_linear(RANK, outputs)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.base(values) + self.up(self.down(values))


def rotate(values: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """Return queries or keys with the positions of their tokens (rotary embeddings)."""
    first, second = values.chunk(2, dim=-1)
    turned = torch.cat((-second, first), dim=-1)
    return values * angles.cos() + turned * angles.sin()


class Block(nn.Module):
    """A layer of Llama: attention and a gated feed-forward network."""

    def __init__(self, make_base: Callable[..., nn.Module]) -> None:
        super().__init__()
        linear = partial(LoraLinear, make_base=make_base)
        self.before_attention = nn.RMSNorm(WIDTH, dtype=torch.bfloat16)
        self.query, self.key, self.value, self.output = (linear(WIDTH, WIDTH) for _ in range(4))
        self.before_feed_forward = nn.RMSNorm(WIDTH, dtype=torch.bfloat16)
        self.gate = linear(WIDTH, FEED_FORWARD)
        self.rise = linear(WIDTH, FEED_FORWARD)
        self.fall = linear(FEED_FORWARD, WIDTH)

    def attend(self, values: torch.Tensor) -> torch.Tensor:
        heads = []
        for layer in (self.query, self.key, self.value):
            heads.append(layer(values).unflatten(-1, (HEADS, -1)).transpose(1, 2))
        query, key, value = heads
        angles = torch.zeros_like(query[0, 0])
        query, key = rotate(query, angles), rotate(key, angles)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.output(mixed.transpose(1, 2).flatten(2))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        values = values + self.attend(self.before_attention(values))
        normed = self.before_feed_forward(values)
        return values + self.fall(functional.silu(self.gate(normed)) * self.rise(normed))


class Llama(nn.Module):
    """Llama 7B with frozen embeddings in bfloat16, and frozen layers of `make_base`."""

    def __init__(self, make_base: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH, dtype=torch.bfloat16)
        self.blocks = nn.ModuleList(Block(make_base) for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH, dtype=torch.bfloat16)
        self.head = make_linear(WIDTH, VOCABULARY)
        for name, weight in self.named_parameters():
            weight.requires_grad_(".up." in name or ".down." in name)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        values = self.embedding(tokens)
        for block in self.blocks:
            values = block(values)
        return self.head(self.norm(values))


def model() -> nn.Module:
    return Llama(make_linear)


def batch(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randint(VOCABULARY, (n, LENGTH))
    return tokens, tokens


def loss(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits[:, :-1].float().flatten(0, 1), tokens[:, 1:].flatten())


def optimizer(parameters) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters)
