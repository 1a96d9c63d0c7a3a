"""The GPT-style decoder in Flax NNX. Attributes carry the canonical names.

`types` are the keyword arguments that every layer takes: `dtype` to compute in, `param_dtype` of
the weights, and `rngs`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax import Array
from jax.typing import DTypeLike

from framebench.models.flax_blocks import Remat, recompute_nothing
from framebench.models.transformer.spec import TransformerConfig

Gelu = Callable[[Array], Array]
# (queries, keys, values) -> output, each (batch, time, head, width / heads)
Attend = Callable[[Array, Array, Array], Array]
Head = Callable[[nnx.Embed, Array], Any]  # (embedding, hidden) -> what the loss takes

exact_gelu: Gelu = partial(nnx.gelu, approximate=False)
attend_by_jax: Attend = partial(jax.nn.dot_product_attention, is_causal=True)


def attend_plainly(q: Array, k: Array, v: Array, mask: Array | None = None) -> Array:
    """Return softmax(q k^T / sqrt(width)) v, the softmax in float32 or wider.

    `mask` (queries, keys) says which keys a query looks at; by default those up to its own.
    """
    length, width = q.shape[1], q.shape[-1]
    if mask is None:
        mask = jnp.tril(jnp.ones((length, length), bool))
    wide = jnp.promote_types(q.dtype, jnp.float32)
    products = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=wide)
    scores = jnp.where(mask, products / width**0.5, -jnp.inf)
    probabilities = jax.nn.softmax(scores).astype(v.dtype)
    return jnp.einsum("bhqk,bkhd->bqhd", probabilities, v)


def project(embedding: nnx.Embed, hidden: Array) -> Array:
    """Return the logits, by the head that is tied to the token embedding."""
    return embedding.attend(hidden)


def skip_head(embedding: nnx.Embed, hidden: Array) -> tuple[nnx.Embed, Array]:
    """Return the two factors of the logits, in place of a head: the loss computes the logits."""
    return embedding, hidden


def make_linear(cin: int, cout: int, rank: int, **types: Any) -> nnx.Linear:
    """Build a linear layer, with an adapter (LoRA, Hu et al. 2021) if there is a rank."""
    if not rank:
        return nnx.Linear(cin, cout, **types)
    return nnx.LoRALinear(
        cin,
        cout,
        lora_rank=rank,
        lora_dtype=types["dtype"],
        lora_param_dtype=types["param_dtype"],
        **types,
    )


class Block(nnx.Module):
    """A pre-norm decoder layer: attention, then a feed-forward network, both residual."""

    def __init__(self, c: TransformerConfig, attend: Attend, gelu: Gelu, **types: Any) -> None:
        """Make the layers; `attend` and `gelu` are the functions to use."""
        self.heads = c.heads
        self.attend = attend
        self.gelu = gelu
        self.ln1 = nnx.LayerNorm(c.width, epsilon=1e-5, **types)
        self.qkv = make_linear(c.width, 3 * c.width, c.rank, **types)
        self.proj = make_linear(c.width, c.width, c.rank, **types)
        self.ln2 = nnx.LayerNorm(c.width, epsilon=1e-5, **types)
        self.fc1 = nnx.Linear(c.width, 4 * c.width, **types)
        self.fc2 = nnx.Linear(4 * c.width, c.width, **types)

    def attention(self, x: Array) -> Array:
        """Project to queries, keys and values, attend, project back: (batch, time, width)."""
        b, t, d = x.shape
        qkv = self.qkv(x).reshape(b, t, 3, self.heads, d // self.heads)
        q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]  # (batch, time, head, width / heads)
        return self.proj(self.attend(q, k, v).reshape(b, t, d))

    def __call__(self, x: Array) -> Array:
        """Map (batch, time, width) to the same shape."""
        x = x + self.attention(self.ln1(x))
        return x + self.fc2(self.gelu(self.fc1(self.ln2(x))))


def run_block(block: Block, x: Array) -> Array:
    """Run a block: the function that `remat` wraps."""
    return block(x)


class Transformer(nnx.Module):
    """The whole decoder: embeddings, blocks, norm, and a head tied to the token embedding.

    With `scan` one block is compiled and looped over: the arrays of `blocks` then have a leading
    axis of layers.
    """

    def __init__(
        self,
        c: TransformerConfig,
        remat: Remat,
        scan: bool,
        attend: Attend,
        gelu: Gelu,
        head: Head,
        rngs: nnx.Rngs,
        **types: Any,
    ) -> None:
        """Make the embeddings, the blocks and the last norm."""
        self.wte = nnx.Embed(c.vocabulary, c.width, rngs=rngs, **types)
        self.wpe = nnx.Embed(c.length, c.width, rngs=rngs, **types)
        self.blocks: Any

        def make_block(rngs: nnx.Rngs) -> Block:
            return Block(c, attend, gelu, rngs=rngs, **types)

        if scan:
            make_all_blocks = nnx.vmap(make_block)
            self.blocks = make_all_blocks(rngs.fork(split=c.layers))
        else:
            self.blocks = nnx.List(make_block(rngs) for _ in range(c.layers))
        self.ln_f = nnx.LayerNorm(c.width, epsilon=1e-5, rngs=rngs, **types)
        self.head = head
        self.remat = remat
        self.scan = scan

    def decode(self, x: Array) -> Array:
        """Run all blocks in turn."""
        if self.scan:
            loop = nnx.scan(self.remat(0, run_block), in_axes=(0, nnx.Carry), out_axes=nnx.Carry)
            return loop(self.blocks, x)
        for i, block in enumerate(self.blocks):
            x = self.remat(i, run_block)(block, x)
        return x

    def __call__(self, tokens: Array, start: Array | None = None) -> Array:
        """Map tokens (batch, time) to logits (batch, time, vocabulary).

        `start` is the position of the first token, by default 0.
        """
        positions = jnp.arange(tokens.shape[1])
        x = self.wte(tokens) + self.wpe(positions if start is None else start + positions)
        return self.head(self.wte, self.ln_f(self.decode(x)))


def build(
    c: TransformerConfig,
    dtype: DTypeLike = jnp.float32,
    param_dtype: DTypeLike = jnp.float32,
    remat: Remat = recompute_nothing,
    scan: bool = False,
    attend: Attend = attend_by_jax,
    gelu: Gelu = exact_gelu,
    head: Head = project,
) -> Transformer:
    """Build the model with Flax's own initial weights.

    Within `nnx.eval_shape`, before other weights are loaded, these cost nothing.
    """
    types = {"dtype": dtype, "param_dtype": param_dtype}
    return Transformer(c, remat, scan, attend, gelu, head, nnx.Rngs(0), **types)


def loss(logits: Array, targets: Array) -> Array:
    """Return the mean cross entropy over all tokens, in float32 or wider."""
    return compute_entropies(logits, targets).mean()


def loss_sum(logits: Array, targets: Array) -> Array:
    """Return the cross entropy summed over the tokens whose target is not -1 (padding)."""
    entropies = compute_entropies(logits, jnp.maximum(targets, 0))
    return jnp.where(targets < 0, 0, entropies).sum()


def compute_entropies(logits: Array, targets: Array) -> Array:
    """Return each token's cross entropy (batch, time), from logits (batch, time, vocabulary)."""
    wide = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    return optax.softmax_cross_entropy_with_integer_labels(wide, targets)


class Phi(NamedTuple):
    """The normal distribution at some values, its density, and the two steps that lead to them."""

    scaled: Array
    erf: Array
    distribution: Array
    density: Array


def compute_phi(x: Array) -> Phi:
    """Return the normal distribution and its density at `x`, with the steps that lead to them."""
    scaled = x / 2**0.5
    erf = jax.lax.erf(scaled)
    density = jnp.exp(-(scaled**2)) / (2 * jnp.pi) ** 0.5
    return Phi(scaled, erf, distribution=(1 + erf) / 2, density=density)


@jax.custom_vjp
def lean_gelu(x: Array) -> Array:
    """Compute x Phi(x), by a rule that saves only x."""
    return x * compute_phi(x).distribution


def lean_forward(x: Array) -> tuple[Array, Array]:
    """Return the function's value and what is saved for its derivative."""
    return lean_gelu(x), x


def lean_backward(x: Array, g: Array) -> tuple[Array]:
    """Return the derivative times `g`, computing Phi again.

    The barrier keeps the compiler from merging what is computed again with the forward pass.
    """
    x, g = jax.lax.optimization_barrier((x, g))
    phi = compute_phi(x)
    return (g * (phi.distribution + x * phi.density),)


@jax.custom_vjp
def wasteful_gelu(x: Array) -> Array:
    """Compute x Phi(x), by a rule that saves every intermediate result.

    The results are those of the function and of its derivative.
    """
    return x * compute_phi(x).distribution


def wasteful_forward(x: Array) -> tuple[Array, tuple[Array, Phi]]:
    """Return the function's value and what is saved for its derivative."""
    phi = compute_phi(x)
    return x * phi.distribution, (x, phi)


def wasteful_backward(saved: tuple[Array, Phi], g: Array) -> tuple[Array]:
    """Return the derivative times `g`, from what was saved."""
    x, phi = saved
    return (g * (phi.distribution + x * phi.density),)


lean_gelu.defvjp(lean_forward, lean_backward)
wasteful_gelu.defvjp(wasteful_forward, wasteful_backward)
