"""The GPT-style decoder in Flax NNX. Attributes carry the canonical names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax import Array

from framebench.models.flax_blocks import Remat, as_it_is
from framebench.models.transformer.spec import Config

Gelu = Callable[[Array], Array]
exact_gelu: Gelu = partial(nnx.gelu, approximate=False)
Attend = Callable[[Array, Array, Array], Array]  # query, key, value, each (batch, time, head, width / heads) -> the same
library: Attend = partial(jax.nn.dot_product_attention, is_causal=True)


def written_out(q: Array, k: Array, v: Array, seen: Array | None = None) -> Array:
    """Return softmax(q k^T / sqrt(width)) v, the softmax in float32 or wider.

    `seen` (queries, keys) says which keys a query looks at; by default those up to its own.
    """
    t, d = q.shape[1], q.shape[-1]
    seen = jnp.tril(jnp.ones((t, t), bool)) if seen is None else seen
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=jnp.promote_types(q.dtype, jnp.float32)) / d**0.5
    masked = jnp.where(seen, scores, -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(masked).astype(v.dtype), v)


def project(embedding: nnx.Embed, hidden: Array) -> Array:
    return embedding.attend(hidden)


def unprojected(embedding: nnx.Embed, hidden: Array) -> tuple[nnx.Embed, Array]:
    """A head that leaves the logits to the loss."""
    return embedding, hidden


def linear(cin: int, cout: int, rank: int, **types: Any) -> nnx.Linear:
    """With a change of low rank beside it (Hu et al. 2021), if there is a rank."""
    if not rank:
        return nnx.Linear(cin, cout, **types)
    return nnx.LoRALinear(cin, cout, lora_rank=rank, lora_dtype=types["dtype"], lora_param_dtype=types["param_dtype"], **types)


class Block(nnx.Module):
    def __init__(self, c: Config, attend: Attend, gelu: Gelu, **types: Any) -> None:
        self.heads = c.heads
        self.attend = attend
        self.gelu = gelu
        self.ln1 = nnx.LayerNorm(c.width, epsilon=1e-5, **types)
        self.qkv = linear(c.width, 3 * c.width, c.rank, **types)
        self.proj = linear(c.width, c.width, c.rank, **types)
        self.ln2 = nnx.LayerNorm(c.width, epsilon=1e-5, **types)
        self.fc1 = nnx.Linear(c.width, 4 * c.width, **types)
        self.fc2 = nnx.Linear(4 * c.width, c.width, **types)

    def attention(self, x: Array) -> Array:  # (batch, time, width) -> the same
        b, t, d = x.shape
        qkv = self.qkv(x).reshape(b, t, 3, self.heads, d // self.heads)
        q, k, v = (qkv[:, :, i] for i in range(3))  # (batch, time, head, width / heads) each
        return self.proj(self.attend(q, k, v).reshape(b, t, d))

    def __call__(self, x: Array) -> Array:
        x = x + self.attention(self.ln1(x))
        return x + self.fc2(self.gelu(self.fc1(self.ln2(x))))


def run(block: Block, x: Array) -> Array:
    return block(x)


class Transformer(nnx.Module):
    def __init__(self, c: Config, remat: Remat, scan: bool, head: Callable[..., Any], rngs: nnx.Rngs, **options: Any) -> None:
        types = {name: options[name] for name in ("dtype", "param_dtype")}
        self.wte = nnx.Embed(c.vocabulary, c.width, rngs=rngs, **types)
        self.wpe = nnx.Embed(c.length, c.width, rngs=rngs, **types)
        self.blocks: Any
        if scan:  # one Block whose arrays have a leading axis of layers
            self.blocks = nnx.vmap(lambda r: Block(c, rngs=r, **options))(rngs.fork(split=c.layers))
        else:
            self.blocks = nnx.List(Block(c, rngs=rngs, **options) for _ in range(c.layers))
        self.ln_f = nnx.LayerNorm(c.width, epsilon=1e-5, rngs=rngs, **types)
        self.head = head
        self.remat = remat
        self.scan = scan  # compile one block and loop over it

    def decode(self, x: Array) -> Array:
        """All blocks in turn."""
        if self.scan:
            return nnx.scan(self.remat(0, run), in_axes=(0, nnx.Carry), out_axes=nnx.Carry)(self.blocks, x)
        for i, block in enumerate(self.blocks):
            x = self.remat(i, run)(block, x)
        return x

    def __call__(self, tokens: Array, start: Array | None = None) -> Array:  # (batch, time) -> (batch, time, vocabulary)
        positions = jnp.arange(tokens.shape[1])
        x = self.wte(tokens) + self.wpe(positions if start is None else start + positions)
        return self.head(self.wte, self.ln_f(self.decode(x)))


def build(
    c: Config,
    dtype: Any = jnp.float32,
    param_dtype: Any = jnp.float32,
    remat: Remat = as_it_is,
    scan: bool = False,
    attend: Attend = library,
    gelu: Gelu = exact_gelu,
    head: Callable[..., Any] = project,
) -> Transformer:
    """With Flax's own initialisers; `nnx.eval_shape` of it costs nothing where other weights follow."""
    return Transformer(c, remat, scan, head, nnx.Rngs(0), dtype=dtype, param_dtype=param_dtype, attend=attend, gelu=gelu)


def loss(logits: Array, targets: Array) -> Array:
    """Mean cross entropy over all tokens, in float32 or wider."""
    return entropies(logits, targets).mean()


def loss_sum(logits: Array, targets: Array) -> Array:
    """Cross entropy summed over the tokens whose target is not -1 (padding)."""
    return jnp.where(targets < 0, 0, entropies(logits, jnp.maximum(targets, 0))).sum()


def entropies(logits: Array, targets: Array) -> Array:  # (batch, time, vocabulary), (batch, time) -> (batch, time)
    wide = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    return optax.softmax_cross_entropy_with_integer_labels(wide, targets)


def phi(x: Array) -> tuple[Array, Array, Array, Array]:
    """The normal distribution and its density, after the two steps that lead to them."""
    scaled = x / 2**0.5
    erf = jax.lax.erf(scaled)
    return scaled, erf, (1 + erf) / 2, jnp.exp(-(scaled**2)) / (2 * jnp.pi) ** 0.5


@jax.custom_vjp
def lean_gelu(x: Array) -> Array:
    """x Phi(x), by a rule that saves x alone."""
    return x * phi(x)[2]


def lean_backward(x: Array, g: Array) -> tuple[Array]:
    """The barrier keeps the compiler from merging what is computed again with the forward pass."""
    x, g = jax.lax.optimization_barrier((x, g))
    _, _, distribution, density = phi(x)
    return (g * (distribution + x * density),)


@jax.custom_vjp
def wasteful_gelu(x: Array) -> Array:
    """x Phi(x), by a rule that saves every intermediate result of the function and of its derivative."""
    return x * phi(x)[2]


def wasteful_forward(x: Array) -> tuple[Array, tuple[Array, ...]]:
    steps = phi(x)
    return x * steps[2], (x, *steps)


def wasteful_backward(saved: tuple[Array, ...], g: Array) -> tuple[Array]:
    x, _, _, distribution, density = saved
    return (g * (distribution + x * density),)


lean_gelu.defvjp(lambda x: (lean_gelu(x), x), lean_backward)
wasteful_gelu.defvjp(wasteful_forward, wasteful_backward)
