"""How JAX generates token by token with each kind of cache, and what proves it.

The tokens are those of the batch, not what the model would say next: so every one of its logits is known from one pass over
the whole sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import Array

from framebench.adapters.base import Switches
from framebench.adapters.caches import compute_cache_bytes
from framebench.adapters.jax.accumulation import Tree
from framebench.adapters.jax.adapter import JaxAdapter
from framebench.adapters.jax.program import products, unique_bytes
from framebench.adapters.proof import Evidence, Proof, at_most, equal_to, expect

switch = Switches()


class Written:
    """Attention while a call of the model is traced: each layer writes its keys and values into the cache, in turn."""

    def __init__(self, written_out: Callable[..., Array]) -> None:
        self.written_out = written_out
        self.old: list[tuple[Array, Array]] = []
        self.new: list[tuple[Array, Array]] = []
        self.start: Array | int = 0

    def attend(self, q: Array, k: Array, v: Array) -> Array:  # (batch, time, head, width / heads) each
        keys, values = (
            jax.lax.dynamic_update_slice_in_dim(old, part.astype(old.dtype), self.start, 1)
            for old, part in zip(self.old[len(self.new)], (k, v))
        )
        self.new.append((keys, values))
        seen = jnp.arange(keys.shape[1]) <= self.start + jnp.arange(q.shape[1])[:, None]
        if q.dtype == jnp.float64:  # the library's softmax is in float32 whatever it is given
            return self.written_out(q, keys, values, seen)
        return jax.nn.dot_product_attention(q, keys, values, mask=seen[None, None])

    def __call__(self, model: nnx.Module, tokens: Array, start: Array | int, cache: Tree) -> tuple[Array, Tree]:
        """Return logits, and the cache with these tokens in it."""
        self.old, self.new, self.start = cache, [], start
        logits = model(tokens, start)  # type: ignore[operator]
        self.old, made = [], self.new
        return logits, made


class Generation:
    """One step gives every token after the prompt, whose loss and cache are there already."""

    def __init__(self, run: JaxAdapter, cached: bool) -> None:
        self.run = run
        self.prompt = run.config.length - run.case.decoded
        self.written = Written(run.model_module.written_out) if cached else None
        self.cache: Tree = []
        self.loss_of_prompt: Any = 0.0
        self.calls = 0  # of the compiled program, in the last step
        self.collecting = False  # logits, while somebody asks for them
        self.collected: list[np.ndarray] = []
        self.read = jax.jit(self.whole, donate_argnums=3)

    def begin(self) -> None:
        """Read the prompt, by a program of its own."""
        run, c = self.run, self.run.config
        shape = (run.case.batch, c.length, c.heads, c.width // c.heads)
        if self.written:
            width = run.recipe.width
            self.cache = [(jnp.zeros(shape, width), jnp.zeros(shape, width)) for _ in range(c.layers)]
        with jax.default_matmul_precision(run.recipe.precision):
            x, y = (np.asarray(a)[:, : self.prompt] for a in run.inputs)
            logits, self.cache = self.read(run.params, run.stats, run.constants, self.cache, x)
            self.loss_of_prompt = jax.jit(run.model_module.loss_sum)(logits, y)
        self.collected = [np.asarray(logits)] if self.collecting else []

    def whole(self, params: Tree, stats: Tree, constants: Tree, cache: Tree, x: Array) -> tuple[Array, Tree]:
        model = nnx.merge(self.run.graph, params, constants["frozen"], stats)
        return self.written(model, x, 0, cache) if self.written else (model(x), cache)

    def decoding(self, graph: nnx.GraphDef) -> Callable[..., tuple[Tree, Array, Array]]:
        """Return the program of one token.

        (parameters, statistics, constants, cache, sum of losses, position, x, y) -> the cache and the sum with the token at
        this position, and its logits.
        """

        def decode(
            params: Tree, stats: Tree, constants: Tree, cache: Tree, total: Array, position: Array, x: Array, y: Array
        ) -> tuple[Tree, Array, Array]:
            model = nnx.merge(graph, params, constants["frozen"], stats)
            if self.written:
                token = jax.lax.dynamic_slice_in_dim(x, position, 1, 1)
                logits, cache = self.written(model, token, position, cache)
            else:
                logits = jax.lax.dynamic_slice_in_dim(model(x), position, 1, 1)
            target = jax.lax.dynamic_slice_in_dim(y, position, 1, 1)
            return cache, total + self.run.model_module.loss_sum(logits, target), logits

        return decode

    def arguments(self) -> tuple[Any, ...]:
        """Return the arguments of the first token's call."""
        run = self.run
        position = jnp.asarray(self.prompt, jnp.int32)
        return run.params, run.stats, run.constants, self.cache, self.loss_of_prompt, position, *run.inputs

    def step(self) -> None:
        run = self.run
        run.release()
        self.calls = 0
        params, stats, constants, cache, total, _, x, y = self.arguments()
        for i in range(self.prompt, run.config.length):
            cache, total, logits = run.program(params, stats, constants, cache, total, jnp.asarray(i, jnp.int32), x, y)
            self.calls += 1
            if self.collecting:
                self.collected.append(np.asarray(logits))
        self.cache = cache
        run.output = total / x.size

    def logits(self) -> np.ndarray:
        """Return those of every token, from reading the prompt once more and one more step."""
        self.collecting = True
        self.begin()
        self.step()
        self.collecting = False
        return np.concatenate(self.collected, 1).astype(np.float64)

    def count_tokens(self, _: Evidence) -> Evidence:
        """Return how many tokens the last step's calls have computed, and the size of the cache."""
        shapes = [product.outvars[0].aval.shape for jaxpr in self.run.jaxprs() for product in products(jaxpr)]
        return {
            "tokens_decoded": self.run.case.decoded,
            "calls": self.calls,
            "tokens_of_a_call": max(shape[1] for shape in shapes if shape[-1] == self.run.config.vocabulary),
            "cache_bytes": unique_bytes(jax.tree.leaves(self.cache)),
            "cache_bytes_by_formula": compute_cache_bytes(self.run.case, np.dtype(self.run.recipe.width).itemsize),
        }


def generation(run: JaxAdapter, cached: bool) -> Generation:
    """Set the parts that both kinds share. The cache is given to each call, to be written over."""
    token_generator = Generation(run, cached)
    if token_generator.written:
        run.recipe.model_options["attend"] = token_generator.written.attend
        run.recipe.jit_options["donate_argnums"] = (3,)
    run.before_first_step.append(token_generator.begin)
    run.recipe.decoding, run.recipe.generating = token_generator.decoding, token_generator.arguments
    run.recipe.step, run.recipe.decoded = token_generator.step, token_generator.logits
    return token_generator


@switch
def static_cache(run: JaxAdapter) -> Proof:
    token_generator = generation(run, cached=True)

    proof = expect(
        calls=equal_to("tokens_decoded"),
        tokens_of_a_call=1,
        # the executable's results share the memory of its arguments as far as the cache goes
        cache_bytes=(equal_to("cache_bytes_by_formula"), at_most("aliased_bytes")),
    )
    return proof.counting(token_generator.count_tokens)


@switch
def no_cache(run: JaxAdapter) -> Proof:
    token_generator = generation(run, cached=False)

    proof = expect(calls=equal_to("tokens_decoded"), tokens_of_a_call=run.config.length, cache_bytes=0)
    return proof.counting(token_generator.count_tokens)
