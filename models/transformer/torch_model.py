"""The GPT-style decoder in PyTorch. Parameter names and layouts are the canonical ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from framebench.models.transformer.spec import Config

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]  # queries, keys, values -> (batch, head, time, width / heads) like each


def fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The same in single operations: the scores (batch, head, time, time) are stored."""
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    return scores.masked_fill(future, -torch.inf).softmax(-1) @ v


def unprojected(hidden: Tensor, embedding: Tensor) -> tuple[Tensor, Tensor]:
    """A head that leaves the logits to the loss."""
    return hidden, embedding


class LoRA(nn.Module):
    """A change of low rank: (..., cin) -> (..., cout)."""

    def __init__(self, cin: int, rank: int, cout: int) -> None:
        super().__init__()
        self.lora_a = nn.Parameter(torch.empty(cin, rank))
        self.lora_b = nn.Parameter(torch.empty(rank, cout))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.lora_a @ self.lora_b


class LoRALinear(nn.Linear):
    """A linear layer with a change of low rank beside it (Hu et al. 2021)."""

    def __init__(self, cin: int, cout: int, rank: int) -> None:
        super().__init__(cin, cout)
        self.lora = LoRA(cin, rank, cout)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.lora(x)


def linear(cin: int, cout: int, rank: int) -> nn.Linear:
    return LoRALinear(cin, cout, rank) if rank else nn.Linear(cin, cout)


class Block(nn.Module):
    def __init__(self, c: Config, attend: Attend, gelu: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.heads = c.heads
        self.attend = attend
        self.gelu = gelu
        self.ln1 = nn.LayerNorm(c.width)
        self.qkv = linear(c.width, 3 * c.width, c.rank)
        self.proj = linear(c.width, c.width, c.rank)
        self.ln2 = nn.LayerNorm(c.width)
        self.fc1 = nn.Linear(c.width, 4 * c.width)
        self.fc2 = nn.Linear(4 * c.width, c.width)

    def attention(self, x: Tensor) -> Tensor:  # (batch, time, width) -> the same
        b, t, d = x.shape
        qkv = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)  # (batch, head, time, width / heads) each
        return self.proj(self.attend(q, k, v).transpose(1, 2).reshape(b, t, d))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.ln1(x))
        return x + self.fc2(self.gelu(self.fc1(self.ln2(x))))


class Transformer(nn.Module):
    def __init__(self, c: Config, head: Callable[[Tensor, Tensor], Any], **options: Any) -> None:
        super().__init__()
        self.wte = nn.Embedding(c.vocabulary, c.width)
        self.wpe = nn.Embedding(c.length, c.width)
        self.blocks = nn.ModuleList(Block(c, **options) for _ in range(c.layers))
        self.ln_f = nn.LayerNorm(c.width)
        self.head = head
        self.remat = lambda block, x: block(x)  # how a block is run: checkpointing replaces this

    def forward(self, tokens: Tensor, start: int = 0) -> Tensor:  # (batch, time) -> (batch, time, vocabulary)
        x = self.wte(tokens) + self.wpe.weight[start : start + tokens.shape[1]]
        for block in self.blocks:
            x = self.remat(block, x)
        return self.head(self.ln_f(x), self.wte.weight)


def build(
    c: Config,
    attend: Attend = fused,
    gelu: Callable[[Tensor], Tensor] = F.gelu,
    head: Callable[[Tensor, Tensor], Any] = F.linear,
) -> nn.Module:
    return Transformer(c, head, attend=attend, gelu=gelu)


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """The units of checkpointing."""
    return [m for m in model.modules() if isinstance(m, Block)]


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy over all tokens, in float32 or wider."""
    flat = logits.flatten(0, 1)
    return F.cross_entropy(flat if flat.dtype == torch.float64 else flat.float(), targets.flatten())


def loss_sum(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy summed over the tokens whose target is not -1 (padding)."""
    flat = logits.flatten(0, 1)
    wide = flat if flat.dtype == torch.float64 else flat.float()
    return F.cross_entropy(wide, targets.flatten(), ignore_index=-1, reduction="sum")
