"""Generate token by token in JAX with each kind of cache, and prove it.

The next token is taken from the batch, whatever the model would say. So all logits are known from
one pass over the whole sequence.
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
from framebench.adapters.caches import LogitsReader, compute_cache_bytes
from framebench.adapters.jax.accumulation import Tree
from framebench.adapters.jax.adapter import JaxAdapter, merge_model
from framebench.adapters.jax.program import count_bytes, find_products
from framebench.adapters.proof import Evidence, Proof, at_most, equal_to, expect

switch = Switches()
# number of the cache among the arguments of both programs: after parameters, statistics, constants
CACHE_ARGUMENT = 3


class CacheWriter:
    """Run a model whose layers write their keys and values into a cache.

    `attend` is the attention of every layer: the layers call it in turn while the model is traced.
    """

    def __init__(self, attend_plainly: Callable[..., Array]) -> None:
        """Set the attention in float64: softmax(q k) v, written out in operations of jax.numpy."""
        self.attend_plainly = attend_plainly
        self.old_layers: list[tuple[Array, Array]] = []  # keys and values of each layer
        # the same, of the layers that have run so far
        self.new_layers: list[tuple[Array, Array]] = []
        self.start: Any = 0  # position of the first token

    def attend(self, q: Array, k: Array, v: Array) -> Array:
        """Return the attention of the next layer.

        The arrays are (batch, time, head, width / heads) each.
        """
        layer = len(self.new_layers)
        old_keys, old_values = self.old_layers[layer]
        keys = self.write(old_keys, k)
        values = self.write(old_values, v)
        self.new_layers.append((keys, values))
        # a token sees itself and those before it, and no part of the cache that is unwritten
        query_positions = self.start + jnp.arange(q.shape[1])
        key_positions = jnp.arange(keys.shape[1])
        mask = key_positions <= query_positions[:, None]
        if q.dtype == jnp.float64:  # the library computes the softmax in float32
            return self.attend_plainly(q, keys, values, mask)
        return jax.nn.dot_product_attention(q, keys, values, mask=mask[None, None])

    def write(self, cached: Array, new_numbers: Array) -> Array:
        """Return the `cached` keys or values with those of the new tokens added."""
        return jax.lax.dynamic_update_slice_in_dim(
            cached, new_numbers.astype(cached.dtype), self.start, 1
        )

    def run(self, model: Any, tokens: Array, start: Any, cache: Tree) -> tuple[Array, Tree]:
        """Return logits, and the cache with these tokens in it."""
        self.old_layers = cache
        self.new_layers = []
        self.start = start
        logits = model(tokens, start)
        self.old_layers = []
        return logits, self.new_layers


class JaxGenerator(LogitsReader):
    """Make the step of `generate`: every token after the prompt, which is read before the step."""

    def __init__(self, adapter: JaxAdapter, cached: bool) -> None:
        """Make the prompt's program; nothing is compiled or computed yet."""
        super().__init__()
        self.adapter = adapter
        self.prompt = adapter.config.length - adapter.case.decoded  # tokens
        self.writer = CacheWriter(adapter.model_module.attend_plainly) if cached else None
        self.cache: Tree = []
        self.prompt_loss: Any = 0.0
        self.calls = 0  # of the compiled program, in the last step
        self.prompt_program = jax.jit(self.run_prompt, donate_argnums=CACHE_ARGUMENT)

    def read_prompt(self) -> Array:
        """Fill the cache with the prompt, keep its loss, and return its logits.

        The prompt has a program of its own.
        """
        adapter = self.adapter
        if self.writer:
            self.cache = self.make_cache()
        with jax.default_matmul_precision(adapter.recipe.precision):
            x, y = (np.asarray(tokens)[:, : self.prompt] for tokens in adapter.inputs)
            logits, self.cache = self.prompt_program(
                adapter.params, adapter.stats, adapter.constants, self.cache, x
            )
            self.prompt_loss = jax.jit(adapter.model_module.loss_sum)(logits, y)
        return logits

    def make_cache(self) -> list[tuple[Array, Array]]:
        """Return empty keys and values of each layer, (batch, time, head, width / heads) each."""
        config = self.adapter.config
        width_of_head = config.width // config.heads
        shape = (self.adapter.case.batch, config.length, config.heads, width_of_head)
        dtype = self.adapter.recipe.dtype
        return [(jnp.zeros(shape, dtype), jnp.zeros(shape, dtype)) for _ in range(config.layers)]

    def run_prompt(
        self, params: Tree, stats: Tree, constants: Tree, cache: Tree, x: Array
    ) -> tuple[Array, Tree]:
        """Return the logits of the prompt, and the cache that holds it."""
        model = merge_model(self.adapter.graph, params, stats, constants)
        if self.writer:
            return self.writer.run(model, x, 0, cache)
        return model(x), cache

    def make_decoder(self, graph: nnx.GraphDef) -> Callable[..., Any]:
        """Return the program of one token.

        Its arguments are (parameters, statistics, constants, cache, sum of losses, position, x, y).
        It returns the cache and the sum with the token at this position, and the token's logits.
        """

        def decode(
            params: Tree,
            stats: Tree,
            constants: Tree,
            cache: Tree,
            total: Array,
            position: Array,
            x: Array,
            y: Array,
        ) -> tuple[Tree, Array, Array]:
            """Compute the token at `position` and add its loss to `total`."""
            model = merge_model(graph, params, stats, constants)
            if self.writer:
                token = jax.lax.dynamic_slice_in_dim(x, position, 1, 1)
                logits, cache = self.writer.run(model, token, position, cache)
            else:
                logits = jax.lax.dynamic_slice_in_dim(model(x), position, 1, 1)
            target = jax.lax.dynamic_slice_in_dim(y, position, 1, 1)
            return cache, total + self.adapter.model_module.loss_sum(logits, target), logits

        return decode

    def list_arguments(self) -> tuple[Any, ...]:
        """Return the arguments of the first token's call."""
        adapter = self.adapter
        model = (adapter.params, adapter.stats, adapter.constants)
        position = jnp.asarray(self.prompt, jnp.int32)
        return *model, self.cache, self.prompt_loss, position, *adapter.inputs

    def step(self) -> None:
        """Compute every token after the prompt, each by one call of the program."""
        adapter = self.adapter
        adapter.release()
        self.calls = 0
        *model, cache, total, _, x, y = self.list_arguments()
        for i in range(self.prompt, adapter.config.length):
            position = jnp.asarray(i, jnp.int32)
            cache, total, logits = adapter.program(*model, cache, total, position, x, y)
            self.calls += 1
            self.collect(logits)
        self.cache = cache
        adapter.output = total / x.size

    def to_numpy(self, logits: Array) -> np.ndarray:
        return np.asarray(logits)

    def count_tokens(self) -> Evidence:
        """Return the counts of the last step, and the bytes of the cache, held and by formula.

        `tokens_of_a_call` is the most tokens whose logits one call computes: without a cache that
        is the whole sequence. The prompt's own program is not counted.
        """
        adapter = self.adapter
        shapes = [
            product.outvars[0].aval.shape for product in find_products(*adapter.list_jaxprs())
        ]
        # logits are (batch, tokens, vocabulary)
        tokens_of_calls = [shape[1] for shape in shapes if shape[-1] == adapter.config.vocabulary]
        number_bytes = np.dtype(adapter.recipe.dtype).itemsize
        return {
            "tokens_decoded": adapter.case.decoded,
            "calls": self.calls,
            "tokens_of_a_call": max(tokens_of_calls),
            "cache_bytes": count_bytes(jax.tree.leaves(self.cache)),
            "cache_bytes_by_formula": compute_cache_bytes(adapter.case, number_bytes),
        }


def set_generator(adapter: JaxAdapter, cached: bool) -> Proof:
    """Prepare decoding with or without a cache, and return the proof that both share.

    A cache is donated to each call of the program, which writes the new cache over it.
    """
    generator = JaxGenerator(adapter, cached)
    if generator.writer:
        adapter.recipe.model_options["attend"] = generator.writer.attend
        adapter.recipe.jit_options["donate_argnums"] = (CACHE_ARGUMENT,)
    adapter.before_first_step.append(generator.read_prompt)
    adapter.recipe.decoder = generator.make_decoder
    adapter.recipe.decoder_arguments = generator.list_arguments
    adapter.recipe.step = generator.step
    adapter.recipe.read_logits = generator.read_logits
    return expect(calls=equal_to("tokens_decoded")).counting(generator.count_tokens)


@switch
def static_cache(adapter: JaxAdapter) -> Proof:
    """Write keys and values into arrays as long as the sequence will be."""
    return set_generator(adapter, cached=True) & expect(
        tokens_of_a_call=1,
        # of the executable's arguments, at least the cache shares memory with the results
        cache_bytes=(equal_to("cache_bytes_by_formula"), at_most("aliased_bytes")),
    )


@switch
def no_cache(adapter: JaxAdapter) -> Proof:
    """Compute the whole sequence for each token."""
    proof = set_generator(adapter, cached=False)
    return proof & expect(tokens_of_a_call=adapter.config.length, cache_bytes=0)
