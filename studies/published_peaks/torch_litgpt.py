"""LitGPT's models with LoRA on queries and values, as it fine-tuned them in October 2023: the same
operators in the same order.

Written anew from the library's description and the shapes that it publishes; nothing else of it is
needed. Weights are bfloat16 and frozen, of each block two low-rank matrices are trained: `A` for
both, and `B` as a convolution of two groups.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

RANK, ALPHA, DROPOUT = 8, 16, 0.05
CHUNK = 128  # tokens of which the head and the loss are computed at once


@dataclass(frozen=True)
class Shape:
    """One model. `rotary` is the share of a head that positions turn."""

    layers: int
    width: int
    heads: int
    vocabulary: int  # padded
    hidden: int
    rotary: float = 1.0
    llama: bool = False  # RMS norm, gated MLP, no biases, one residual after the other
    shared_norm: bool = False
    head_bias: bool = False
    gelu: str = "none"


SHAPES = {
    "phi-1.5": Shape(
        24, 2048, 32, 51200, 8192, rotary=0.5, shared_norm=True, head_bias=True, gelu="tanh"
    ),
    "StableLM Alpha 3B": Shape(16, 4096, 32, 50688, 16384, rotary=0.25),
    "Llama 2 7B": Shape(32, 4096, 32, 32000, 11008, llama=True),
    "Llama 2 13B": Shape(40, 5120, 40, 32000, 13824, llama=True),
}


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        dtype, x = x.dtype, x.float()
        mean = torch.mean(x * x, dim=-1, keepdim=True)
        return (self.weight * (x * torch.rsqrt(mean + 1e-5))).to(dtype=dtype)


class QKV(nn.Module):
    """One product for queries, keys and values, and the low-rank update of the first and the
    last.
    """

    updated: Tensor  # where of the product

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.width
        self.linear = nn.Linear(width, 3 * width, bias=not shape.llama)
        self.lora_A = nn.Parameter(torch.zeros(2 * RANK, width))
        self.lora_B = nn.Parameter(torch.zeros(2 * width, RANK))
        self.dropout = nn.Dropout(DROPOUT)
        self.register_buffer("updated", torch.zeros(2 * width, dtype=torch.int64), persistent=False)

    def forward(self, x: Tensor) -> Tensor:  # (batch, time, width)
        pretrained = self.linear(x)
        low = F.linear(self.dropout(x), self.lora_A)
        update = F.conv1d(low.transpose(-2, -1), self.lora_B.unsqueeze(-1), groups=2).transpose(
            -2, -1
        )
        padded = update.new_zeros(*update.shape[:-1], pretrained.shape[-1]).index_copy_(
            -1, self.updated, update
        )
        return pretrained + padded * (ALPHA / RANK)


class Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.size = shape.heads, shape.width // shape.heads
        self.turned = int(shape.rotary * self.size)
        self.attn = QKV(shape)
        self.proj = nn.Linear(shape.width, shape.width, bias=not shape.llama)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, time, width = x.shape
        qkv = self.attn(x).view(batch, time, self.heads, 3, self.size).permute(0, 2, 3, 1, 4)
        q, k, v = (part.reshape(batch, -1, time, self.size) for part in qkv.split((1, 1, 1), dim=2))
        q_turned, k_turned = (turn(part[..., : self.turned], cos, sin) for part in (q, k))
        q = torch.cat((q_turned, q[..., self.turned :]), dim=-1)
        k = torch.cat((k_turned, k[..., self.turned :]), dim=-1)
        y = F.scaled_dot_product_attention(
            q, k, v, scale=self.size**-0.5, is_causal=True
        ).transpose(1, 2)
        out: Tensor = self.proj(y.reshape(batch, time, width))
        return out


def turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Positions are float32, whatever the model is."""
    half = x.size(-1) // 2
    rotated = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return ((x * cos) + (rotated * sin)).type_as(x)


class MLP(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.fc = nn.Linear(shape.width, shape.hidden)
        self.proj = nn.Linear(shape.hidden, shape.width)
        self.gelu = shape.gelu

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc(x)
        x = F.gelu(x, approximate=self.gelu)
        out: Tensor = self.proj(x)
        return out


class GatedMLP(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.fc_1, self.fc_2 = (nn.Linear(shape.width, shape.hidden, bias=False) for _ in range(2))
        self.proj = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate = self.fc_1(x)
        value = self.fc_2(x)
        x = F.silu(gate) * value
        out: Tensor = self.proj(x)
        return out


class Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        norm = RMSNorm if shape.llama else nn.LayerNorm
        self.norm_1, self.attn = norm(shape.width), Attention(shape)
        self.norm_2 = None if shape.shared_norm else norm(shape.width)
        self.mlp = GatedMLP(shape) if shape.llama else MLP(shape)
        self.parallel = not shape.llama

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        normed = self.norm_1(x)
        attended = self.attn(normed, cos, sin)
        if self.parallel:
            normed = self.norm_2(x) if self.norm_2 else normed
            return self.mlp(normed) + attended + x  # type: ignore[no-any-return]
        assert self.norm_2
        x = attended + x
        return self.mlp(self.norm_2(x)) + x  # type: ignore[no-any-return]


class GPT(nn.Module):
    """Returns the logits in chunks of tokens."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.turned = int(shape.rotary * shape.width // shape.heads)
        self.lm_head = nn.Linear(shape.width, shape.vocabulary, bias=shape.head_bias)
        self.wte = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.ln_f = (RMSNorm if shape.llama else nn.LayerNorm)(shape.width)
        for name, parameter in self.named_parameters():
            parameter.requires_grad_("lora_" in name)

    def forward(self, tokens: Tensor, cos: Tensor, sin: Tensor) -> list[Tensor]:
        x = self.wte(tokens)
        for block in self.blocks:
            x = block(x, cos, sin)
        x = self.ln_f(x)
        return [self.lm_head(part) for part in x.split(CHUNK, dim=1)]


def chunked_cross_entropy(logits: list[Tensor], targets: Tensor) -> Tensor:
    """Of the chunks that the head gave."""
    flat = [chunk.reshape(-1, chunk.size(-1)) for chunk in logits]
    aims = [chunk.reshape(-1) for chunk in targets.split(logits[0].size(1), dim=1)]
    losses = [
        F.cross_entropy(chunk, aim, ignore_index=-1, reduction="none")
        for chunk, aim in zip(flat, aims)
    ]
    counted = (targets != -1).sum()
    return torch.cat(losses).sum() / counted.maximum(torch.ones_like(counted))


def build(name: str) -> nn.Module:
    return GPT(SHAPES[name]).to(torch.bfloat16)
