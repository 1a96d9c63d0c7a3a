"""The GPT-style decoder in PyTorch. Parameter names and layouts are the canonical ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from framebench.models.transformer.spec import TransformerConfig

# (queries, keys, values) -> output, each (batch, head, time, width / heads)
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
Gelu = Callable[[Tensor], Tensor]
Head = Callable[[Tensor, Tensor], Any]  # (hidden, embedding) -> what the loss takes


def attend_fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Compute causal attention by PyTorch's fused operator."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def attend_plainly(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Compute causal attention by single operations: the scores are stored.

    The scores are (batch, head, time, time).
    """
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    return scores.masked_fill(future, -torch.inf).softmax(-1) @ v


def skip_head(hidden: Tensor, embedding: Tensor) -> tuple[Tensor, Tensor]:
    """Return the two factors of the logits, in place of a head: the loss computes the logits."""
    return hidden, embedding


class LoRA(nn.Module):
    """The change of low rank that an adapter adds: (..., cin) -> (..., cout)."""

    def __init__(self, cin: int, rank: int, cout: int) -> None:
        """Make both factors, of rank `rank`, without values."""
        super().__init__()
        self.lora_a = nn.Parameter(torch.empty(cin, rank))
        self.lora_b = nn.Parameter(torch.empty(rank, cout))

    def forward(self, x: Tensor) -> Tensor:
        """Multiply by the product of the two factors."""
        return x @ self.lora_a @ self.lora_b


class LoRALinear(nn.Linear):
    """A linear layer with an adapter next to it (LoRA, Hu et al. 2021)."""

    def __init__(self, cin: int, cout: int, rank: int) -> None:
        """Make the linear layer and its adapter."""
        super().__init__(cin, cout)
        self.lora = LoRA(cin, rank, cout)

    def forward(self, x: Tensor) -> Tensor:
        """Add the adapter's output to the layer's."""
        return super().forward(x) + self.lora(x)


def make_linear(cin: int, cout: int, rank: int) -> nn.Linear:
    """Build a linear layer, with an adapter if there is a rank."""
    return LoRALinear(cin, cout, rank) if rank else nn.Linear(cin, cout)


class Block(nn.Module):
    """A pre-norm decoder layer: attention, then a feed-forward network, both residual."""

    def __init__(self, c: TransformerConfig, attend: Attend, gelu: Gelu) -> None:
        """Make the layers; `attend` and `gelu` are the functions to use."""
        super().__init__()
        self.heads = c.heads
        self.attend = attend
        self.gelu = gelu
        self.ln1 = nn.LayerNorm(c.width)
        self.qkv = make_linear(c.width, 3 * c.width, c.rank)
        self.proj = make_linear(c.width, c.width, c.rank)
        self.ln2 = nn.LayerNorm(c.width)
        self.fc1 = nn.Linear(c.width, 4 * c.width)
        self.fc2 = nn.Linear(4 * c.width, c.width)

    def attention(self, x: Tensor) -> Tensor:
        """Project to queries, keys and values, attend, project back: (batch, time, width)."""
        b, t, d = x.shape
        qkv = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)  # (batch, head, time, width / heads) each
        return self.proj(self.attend(q, k, v).transpose(1, 2).reshape(b, t, d))

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, time, width) to the same shape."""
        x = x + self.attention(self.ln1(x))
        return x + self.fc2(self.gelu(self.fc1(self.ln2(x))))


def run_plainly(block: nn.Module, x: Tensor) -> Tensor:
    """Run a block itself: nothing is recomputed in the backward pass."""
    return block(x)


class Transformer(nn.Module):
    """The whole decoder: embeddings, blocks, norm, and a head tied to the token embedding."""

    def __init__(self, c: TransformerConfig, attend: Attend, gelu: Gelu, head: Head) -> None:
        """Make the embeddings, the blocks and the last norm."""
        super().__init__()
        self.wte = nn.Embedding(c.vocabulary, c.width)
        self.wpe = nn.Embedding(c.length, c.width)
        self.blocks = nn.ModuleList(Block(c, attend, gelu) for _ in range(c.layers))
        self.ln_f = nn.LayerNorm(c.width)
        self.head = head
        # the checkpoint strategy replaces it by a function that recomputes the block
        self.block_runner = run_plainly

    def forward(self, tokens: Tensor, start: int = 0) -> Tensor:
        """Map tokens (batch, time) to logits (batch, time, vocabulary).

        `start` is the position of the first token.
        """
        x = self.wte(tokens) + self.wpe.weight[start : start + tokens.shape[1]]
        for block in self.blocks:
            x = self.block_runner(block, x)
        return self.head(self.ln_f(x), self.wte.weight)


def build(
    c: TransformerConfig,
    attend: Attend = attend_fused,
    gelu: Gelu = F.gelu,
    head: Head = F.linear,
) -> nn.Module:
    """Build the model with PyTorch's own initial weights."""
    return Transformer(c, attend, gelu, head)


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """Return the blocks that checkpointing recomputes."""
    return [module for module in model.modules() if isinstance(module, Block)]


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross entropy over all tokens, in float32 or wider."""
    flat = logits.flatten(0, 1)
    return F.cross_entropy(flat if flat.dtype == torch.float64 else flat.float(), targets.flatten())


def loss_sum(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the cross entropy summed over the tokens whose target is not -1 (padding)."""
    flat = logits.flatten(0, 1)
    wide = flat if flat.dtype == torch.float64 else flat.float()
    return F.cross_entropy(wide, targets.flatten(), ignore_index=-1, reduction="sum")
