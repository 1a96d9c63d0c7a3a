"""The GPT-style decoder in Flax NNX. Attributes carry the canonical names."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax import Array

from models.transformer.spec import Config


class Block(nnx.Module):
    def __init__(self, c: Config, **types: Any) -> None:
        self.heads = c.heads
        self.ln1 = nnx.LayerNorm(c.width, epsilon=1e-5, **types)
        self.qkv = nnx.Linear(c.width, 3 * c.width, **types)
        self.proj = nnx.Linear(c.width, c.width, **types)
        self.ln2 = nnx.LayerNorm(c.width, epsilon=1e-5, **types)
        self.fc1 = nnx.Linear(c.width, 4 * c.width, **types)
        self.fc2 = nnx.Linear(4 * c.width, c.width, **types)

    def attention(self, x: Array) -> Array:  # (batch, time, width) -> the same
        b, t, d = x.shape
        qkv = self.qkv(x).reshape(b, t, 3, self.heads, d // self.heads)
        q, k, v = (qkv[:, :, i] for i in range(3))  # (batch, time, head, width / heads) each
        return self.proj(jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(b, t, d))

    def __call__(self, x: Array) -> Array:
        x = x + self.attention(self.ln1(x))
        return x + self.fc2(nnx.gelu(self.fc1(self.ln2(x)), approximate=False))


def run(block: Block, x: Array) -> Array:
    return block(x)


class Transformer(nnx.Module):
    def __init__(self, c: Config, remat: bool, scan: bool, rngs: nnx.Rngs, **types: Any) -> None:
        self.wte = nnx.Embed(c.vocabulary, c.width, rngs=rngs, **types)
        self.wpe = nnx.Embed(c.length, c.width, rngs=rngs, **types)
        if scan:  # one Block whose arrays have a leading axis of layers
            self.blocks = nnx.vmap(lambda r: Block(c, rngs=r, **types))(rngs.fork(split=c.layers))
        else:
            self.blocks = nnx.List(Block(c, rngs=rngs, **types) for _ in range(c.layers))
        self.ln_f = nnx.LayerNorm(c.width, epsilon=1e-5, rngs=rngs, **types)
        self.remat = remat  # recompute each block in the backward pass
        self.scan = scan  # compile one block and loop over it

    def decode(self, x: Array) -> Array:
        """All blocks in turn. A loop keeps the compiler from merging recomputation with the forward pass, so inside it
        `prevent_cse` is needless (see jax.checkpoint)."""
        block_of = nnx.remat(run, prevent_cse=not self.scan) if self.remat else run
        if self.scan:
            return nnx.scan(block_of, in_axes=(0, nnx.Carry), out_axes=nnx.Carry)(self.blocks, x)
        for block in self.blocks:
            x = block_of(block, x)
        return x

    def __call__(self, tokens: Array) -> Array:  # (batch, time) -> (batch, time, vocabulary)
        x = self.wte(tokens) + self.wpe(jnp.arange(tokens.shape[1]))
        return self.wte.attend(self.ln_f(self.decode(x)))


def build(
    c: Config, dtype: Any = jnp.float32, param_dtype: Any = jnp.float32, remat: bool = False, scan: bool = False
) -> Transformer:
    """With Flax's own initialisers; `nnx.eval_shape` of it costs nothing where other weights follow."""
    return Transformer(c, remat, scan, nnx.Rngs(0), dtype=dtype, param_dtype=param_dtype)


def loss(logits: Array, targets: Array) -> Array:
    """Mean cross entropy over all tokens, in float32 or wider."""
    wide = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    return optax.softmax_cross_entropy_with_integer_labels(wide, targets).mean()
