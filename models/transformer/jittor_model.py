"""The GPT-style decoder in Jittor. Parameter names and layouts are the canonical ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jittor as jt
from jittor import Module, Var, nn

from framebench.models.transformer.spec import Config

Attend = Callable[[Var, Var, Var], Var]


def causal(scores: Var) -> Var:
    """Scores (batch, head, time, time) with those of the future made so low that their softmax is exactly zero.

    The comparison of indices is fused into the softmax's kernels, so no mask is ever stored.
    """
    return jt.ternary(scores.index(2) >= scores.index(3), scores, jt.full_like(scores, -1e30))


def attention(q: Var, k: Var, v: Var) -> Var:
    """Causal softmax(q k^T / sqrt(width)) v; queries, keys and values are (batch, head, time, width / heads) each."""
    scores = nn.bmm_transpose(q, k) * q.shape[-1] ** -0.5
    return nn.bmm(nn.softmax(causal(scores), dim=-1), v)


def unprojected(hidden: Var, embedding: Var) -> tuple[Var, Var]:
    """A head that leaves the logits to the loss."""
    return hidden, embedding


class LoRA(Module):
    """A change of low rank: (..., cin) -> (..., cout)."""

    def __init__(self, cin: int, rank: int, cout: int) -> None:
        self.lora_a = jt.zeros((cin, rank))
        self.lora_b = jt.zeros((rank, cout))

    def execute(self, x: Var) -> Var:
        return x @ self.lora_a @ self.lora_b


class LoRALinear(nn.Linear):
    """A linear layer with a change of low rank beside it (Hu et al. 2021)."""

    def __init__(self, cin: int, cout: int, rank: int) -> None:
        super().__init__(cin, cout)
        self.lora = LoRA(cin, rank, cout)

    def execute(self, x: Var) -> Var:
        return super().execute(x) + self.lora(x)


def linear(cin: int, cout: int, rank: int) -> nn.Linear:
    return LoRALinear(cin, cout, rank) if rank else nn.Linear(cin, cout)


class Block(Module):
    def __init__(self, c: Config, attend: Attend, gelu: Callable[[Var], Var]) -> None:
        self.heads = c.heads
        self.attend = attend
        self.gelu = gelu
        self.ln1 = nn.LayerNorm(c.width)
        self.qkv = linear(c.width, 3 * c.width, c.rank)
        self.proj = linear(c.width, c.width, c.rank)
        self.ln2 = nn.LayerNorm(c.width)
        self.fc1 = nn.Linear(c.width, 4 * c.width)
        self.fc2 = nn.Linear(4 * c.width, c.width)

    def attention(self, x: Var) -> Var:  # (batch, time, width) -> the same
        b, t, d = x.shape
        qkv = self.qkv(x).reshape(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]  # (batch, head, time, width / heads) each
        return self.proj(self.attend(q, k, v).transpose(1, 2).reshape(b, t, d))

    def execute(self, x: Var) -> Var:
        x = x + self.attention(self.ln1(x))
        return x + self.fc2(self.gelu(self.fc1(self.ln2(x))))


class Transformer(Module):
    def __init__(self, c: Config, attend: Attend, gelu: Callable[[Var], Var], head: Callable[[Var, Var], Any]) -> None:
        self.wte = nn.Embedding(c.vocabulary, c.width)
        self.wpe = nn.Embedding(c.length, c.width)
        self.blocks = nn.ModuleList([Block(c, attend, gelu) for _ in range(c.layers)])
        self.ln_f = nn.LayerNorm(c.width)
        self.head = head
        self.remat = lambda block, x: block(x)  # how a block is run: checkpointing replaces this

    def execute(self, tokens: Var, start: int = 0) -> Var:  # (batch, time) -> (batch, time, vocabulary)
        x = self.wte(tokens) + self.wpe.weight[start : start + tokens.shape[1]]
        for block in self.blocks:
            x = self.remat(block, x)
        return self.head(self.ln_f(x), self.wte.weight)


def build(
    c: Config,
    attend: Attend = attention,
    gelu: Callable[[Var], Var] = nn.gelu,
    head: Callable[[Var, Var], Any] = nn.linear,
) -> Module:
    return Transformer(c, attend, gelu, head)


def blocks_of(model: Module) -> list[Module]:
    """The units of checkpointing."""
    return [m for m in model.modules() if isinstance(m, Block)]


def loss(logits: Var, targets: Var) -> Var:
    """Mean cross entropy over all tokens."""
    return nn.cross_entropy_loss(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def loss_sum(logits: Var, targets: Var) -> Var:
    """Cross entropy summed over the tokens whose target is not -1 (padding)."""
    return nn.cross_entropy_loss(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=-1, reduction="sum")
