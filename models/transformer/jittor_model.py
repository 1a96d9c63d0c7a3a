"""The GPT-style decoder in Jittor. Parameter names and layouts are the canonical ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jittor as jt
from jittor import Module, Var, nn

from framebench.models.transformer.spec import TransformerConfig

# (queries, keys, values) -> output, each (batch, head, time, width / heads)
Attend = Callable[[Var, Var, Var], Var]
Gelu = Callable[[Var], Var]
Head = Callable[[Var, Var], Any]  # (hidden, embedding) -> what the loss takes


def mask_future(scores: Var) -> Var:
    """Make the scores of later tokens so low that their softmax is exactly zero.

    Scores are (batch, head, time, time). The comparison of indices is fused into the softmax's
    kernels, so no mask is ever stored.
    """
    return jt.ternary(scores.index(2) >= scores.index(3), scores, jt.full_like(scores, -1e30))


def attend_plainly(q: Var, k: Var, v: Var) -> Var:
    """Compute causal attention, softmax(q k^T / sqrt(width)) v, by two matmuls and a softmax."""
    scores = nn.bmm_transpose(q, k) * q.shape[-1] ** -0.5
    return nn.bmm(nn.softmax(mask_future(scores), dim=-1), v)


def skip_head(hidden: Var, embedding: Var) -> tuple[Var, Var]:
    """Return the two factors of the logits, in place of a head: the loss computes the logits."""
    return hidden, embedding


class LoRA(Module):
    """The change of low rank that an adapter adds: (..., cin) -> (..., cout)."""

    def __init__(self, cin: int, rank: int, cout: int) -> None:
        """Make both factors, of rank `rank`."""
        self.lora_a = jt.zeros((cin, rank))
        self.lora_b = jt.zeros((rank, cout))

    def execute(self, x: Var) -> Var:
        """Multiply by the product of the two factors."""
        return x @ self.lora_a @ self.lora_b


class LoRALinear(nn.Linear):
    """A linear layer with an adapter next to it (LoRA, Hu et al. 2021)."""

    def __init__(self, cin: int, cout: int, rank: int) -> None:
        """Make the linear layer and its adapter."""
        super().__init__(cin, cout)
        self.lora = LoRA(cin, rank, cout)

    def execute(self, x: Var) -> Var:
        """Add the adapter's output to the layer's."""
        return super().execute(x) + self.lora(x)


def make_linear(cin: int, cout: int, rank: int) -> nn.Linear:
    """Build a linear layer, with an adapter if there is a rank."""
    return LoRALinear(cin, cout, rank) if rank else nn.Linear(cin, cout)


class Block(Module):
    """A pre-norm decoder layer: attention, then a feed-forward network, both residual."""

    def __init__(self, c: TransformerConfig, attend: Attend, gelu: Gelu) -> None:
        """Make the layers; `attend` and `gelu` are the functions to use."""
        self.heads = c.heads
        self.attend = attend
        self.gelu = gelu
        self.ln1 = nn.LayerNorm(c.width)
        self.qkv = make_linear(c.width, 3 * c.width, c.rank)
        self.proj = make_linear(c.width, c.width, c.rank)
        self.ln2 = nn.LayerNorm(c.width)
        self.fc1 = nn.Linear(c.width, 4 * c.width)
        self.fc2 = nn.Linear(4 * c.width, c.width)

    def attention(self, x: Var) -> Var:
        """Project to queries, keys and values, attend, project back: (batch, time, width)."""
        b, t, d = x.shape
        qkv = self.qkv(x).reshape(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]  # (batch, head, time, width / heads) each
        return self.proj(self.attend(q, k, v).transpose(1, 2).reshape(b, t, d))

    def execute(self, x: Var) -> Var:
        """Map (batch, time, width) to the same shape."""
        x = x + self.attention(self.ln1(x))
        return x + self.fc2(self.gelu(self.fc1(self.ln2(x))))


def run_plainly(block: Block, x: Var) -> Var:
    """Run a block itself: nothing is recomputed in the backward pass."""
    return block(x)


class Transformer(Module):
    """The whole decoder: embeddings, blocks, norm, and a head tied to the token embedding."""

    def __init__(self, c: TransformerConfig, attend: Attend, gelu: Gelu, head: Head) -> None:
        """Make the embeddings, the blocks and the last norm."""
        self.wte = nn.Embedding(c.vocabulary, c.width)
        self.wpe = nn.Embedding(c.length, c.width)
        self.blocks = nn.ModuleList([Block(c, attend, gelu) for _ in range(c.layers)])
        self.ln_f = nn.LayerNorm(c.width)
        self.head = head
        # the checkpoint strategy replaces it by a function that recomputes the block
        self.block_runner = run_plainly

    def execute(self, tokens: Var, start: int = 0) -> Var:
        """Map tokens (batch, time) to logits (batch, time, vocabulary).

        `start` is the position of the first token.
        """
        x = self.wte(tokens) + self.wpe.weight[start : start + tokens.shape[1]]
        for block in self.blocks:
            x = self.block_runner(block, x)
        return self.head(self.ln_f(x), self.wte.weight)


def build(
    c: TransformerConfig,
    attend: Attend = attend_plainly,
    gelu: Gelu = nn.gelu,
    head: Head = nn.linear,
) -> Module:
    """Build the model with Jittor's own initial weights."""
    return Transformer(c, attend, gelu, head)


def blocks_of(model: Module) -> list[Module]:
    """Return the blocks that checkpointing recomputes."""
    return [module for module in model.modules() if isinstance(module, Block)]


def loss(logits: Var, targets: Var) -> Var:
    """Return the mean cross entropy over all tokens."""
    return nn.cross_entropy_loss(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def loss_sum(logits: Var, targets: Var) -> Var:
    """Return the cross entropy summed over the tokens whose target is not -1 (padding)."""
    flat = logits.reshape(-1, logits.shape[-1])
    return nn.cross_entropy_loss(flat, targets.reshape(-1), ignore_index=-1, reduction="sum")
