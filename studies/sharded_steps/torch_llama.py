"""torchtitan's eager step of Llama 3 8B under FSDP2, on one simulated rank, in PyTorch's
environment: `python -m studies.sharded_steps.torch_llama RANKS BATCH LENGTH RECOMPUTED`.

Prints bytes as JSON. Model, sharding, loss and checkpointing are written after torchtitan of
December 2024 (torchtitan/models/llama/model.py, torchtitan/parallelisms/parallelize_llama.py).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from framebench.devices.catalog import find
from framebench.devices.simulation.blocks import Settings
from framebench.devices.simulation.torch_simulate import simulate

WIDTH, LAYERS, HEADS, GROUPS, VOCABULARY, HIDDEN = 4096, 32, 32, 8, 128256, 14336
HEAD = WIDTH // HEADS
GPU_BYTES = 96 * 2**30  # the H100s of torchtitan's benchmarks have 96 GB
RELEASE = (2, 6)  # of PyTorch, of which these nightlies were
MATMUL = torch.ops.aten.mm.default
# what selective checkpointing keeps, next to every second product (parallelize_llama.py)
KEPT = {
    MATMUL,
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops._c10d_functional.reduce_scatter_tensor.default,
}


def rotate(values: Tensor, angles: Tensor) -> Tensor:
    """Return queries or keys turned by their positions. Shape: batch, length, heads, head."""
    pairs = torch.view_as_complex(values.float().reshape(*values.shape[:-1], -1, 2))
    turned = pairs * angles.view(1, values.shape[1], 1, -1)
    return torch.view_as_real(turned).flatten(3).type_as(values)


def repeat_heads(values: Tensor) -> Tensor:
    """Return each group's keys or values once for each of its heads."""
    batch, length, groups, head = values.shape
    times = HEADS // groups
    expanded = values[:, :, :, None, :].expand(batch, length, groups, times, head)
    return expanded.reshape(batch, length, groups * times, head)


class Attention(nn.Module):
    """Causal attention with grouped heads."""

    def __init__(self) -> None:
        super().__init__()
        self.wq = nn.Linear(WIDTH, HEADS * HEAD, bias=False)
        self.wk = nn.Linear(WIDTH, GROUPS * HEAD, bias=False)
        self.wv = nn.Linear(WIDTH, GROUPS * HEAD, bias=False)
        self.wo = nn.Linear(HEADS * HEAD, WIDTH, bias=False)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        batch, length, _ = x.shape
        queries, keys, values = self.wq(x), self.wk(x), self.wv(x)
        queries = rotate(queries.view(batch, length, HEADS, HEAD), angles)
        keys = rotate(keys.view(batch, length, GROUPS, HEAD), angles)
        keys = repeat_heads(keys)
        values = repeat_heads(values.view(batch, length, GROUPS, HEAD))
        queries, keys, values = (part.transpose(1, 2) for part in (queries, keys, values))
        out = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        out = out.transpose(1, 2).contiguous()
        return self.wo(out.view(batch, length, -1))  # type: ignore[no-any-return]


class FeedForward(nn.Module):
    """The gated layers."""

    def __init__(self) -> None:
        super().__init__()
        self.w1 = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.w2 = nn.Linear(HIDDEN, WIDTH, bias=False)
        self.w3 = nn.Linear(WIDTH, HIDDEN, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(functional.silu(self.w1(x)) * self.w3(x))  # type: ignore[no-any-return]


class Block(nn.Module):
    """One layer."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.feed_forward = FeedForward()
        self.attention_norm = nn.RMSNorm(WIDTH, eps=1e-5)
        self.ffn_norm = nn.RMSNorm(WIDTH, eps=1e-5)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        hidden = x + self.attention(self.attention_norm(x), angles)
        return hidden + self.feed_forward(self.ffn_norm(hidden))  # type: ignore[no-any-return]


class Checkpointed(nn.Module):
    """A layer that is computed again in the backward pass, wholly or in part."""

    def __init__(self, block: Block, selective: bool) -> None:
        super().__init__()
        self.block = block
        self.selective = selective

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        options: dict[str, Any] = {"use_reentrant": False, "preserve_rng_state": False}
        if self.selective:
            policy = make_policy()
            options["context_fn"] = partial(create_selective_checkpoint_contexts, policy)
        return checkpoint(self.block, x, angles, **options)  # type: ignore[no-any-return]


def make_policy() -> Callable[..., CheckpointPolicy]:
    """Return what keeps attention, collectives and every second product of a layer."""
    products = {False: 0, True: 0}  # by whether the layer is computed again

    def choose(context: Any, operator: Any, *_: Any, **__: Any) -> CheckpointPolicy:
        if operator == MATMUL:
            products[context.is_recompute] += 1
        is_second = operator == MATMUL and products[context.is_recompute] % 2 == 0
        if operator in KEPT and not is_second:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return choose


class Llama(nn.Module):
    """Llama 3 8B."""

    def __init__(self, length: int, recomputed: str) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(VOCABULARY, WIDTH)
        blocks: list[nn.Module] = [Block() for _ in range(LAYERS)]
        if recomputed != "none":
            blocks = [Checkpointed(block, recomputed == "selective") for block in blocks]  # type: ignore[arg-type]
        self.layers = nn.ModuleList(blocks)
        self.norm = nn.RMSNorm(WIDTH, eps=1e-5)
        self.output = nn.Linear(WIDTH, VOCABULARY, bias=False)
        angles = torch.zeros(length, HEAD // 2, dtype=torch.complex64)
        self.register_buffer("angles", angles, persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = self.tok_embeddings(tokens)
        for layer in self.layers:
            hidden = layer(hidden, self.angles)
        return self.output(self.norm(hidden))  # type: ignore[no-any-return]


def shard(model: Llama, ranks: int) -> None:
    """Divide the model as torchtitan's `apply_fsdp` does."""
    mesh = init_device_mesh("cuda", (ranks,))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for number, layer in enumerate(model.layers):
        # the last layer is needed at once by the backward pass
        is_last = number == LAYERS - 1
        fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=not is_last)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=True)


def make_step(
    ranks: int, batch: int, length: int, recomputed: str, device: torch.device
) -> Callable[[], None]:
    """Build model, optimizer and batch, and return torchtitan's training step."""
    with torch.device("meta"):
        model = Llama(length, recomputed)
    shard(model, ranks)
    model.to_empty(device=device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True
    )

    def step() -> None:
        tokens = torch.zeros(batch, length, dtype=torch.int64, device=device)
        labels = torch.zeros(batch, length, dtype=torch.int64, device=device)
        optimizer.zero_grad()
        predicted = model(tokens)
        loss = functional.cross_entropy(predicted.flatten(0, 1).float(), labels.flatten(0, 1))
        del predicted
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()

    return step


if __name__ == "__main__":
    ranks, batch, length = (int(text) for text in sys.argv[1:4])
    start = time.monotonic()
    simulation = simulate(
        partial(make_step, ranks, batch, length, sys.argv[4]),
        find("h100-80gb"),
        settings=Settings(limit=GPU_BYTES),
        release=RELEASE,
        ranks=ranks,
    )
    answer = {
        "reserved_bytes": simulation.reserved,
        "allocated_bytes": max(simulation.by_step),
        "kinds": simulation.kinds,
        "holders": [holder._asdict() for holder in simulation.holders[:12]],
        "wall_s": round(time.monotonic() - start, 1),
    }
    print(json.dumps(answer))
