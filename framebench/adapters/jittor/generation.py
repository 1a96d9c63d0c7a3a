"""How Jittor generates token by token with each kind of cache, and what proves it.

What is the same in PyTorch is in `adapters/caches.py`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import jittor as jt
from jittor import Module, Var, nn

from framebench.adapters.base import Switches
from framebench.adapters.caches import (
    GrowingCache,
    StaticCache,
    TokenGenerator,
    expect_computed_once,
    expect_recomputed,
)
from framebench.adapters.jittor.adapter import JittorAdapter
from framebench.adapters.proof import Evidence, Proof, expect

switch = Switches()


class JittorGenerator(TokenGenerator):
    """The step of `generate` in Jittor."""

    def attend(self, q: Var, k: Var, v: Var) -> Var:
        """Return the attention of the layer whose turn it is to all tokens so far.

        Layers take turns in their order, which `extend_cache` counts. `q`, `k` and `v` are
        (batch, heads, new tokens, width of a head).
        """
        keys, values = self.extend_cache((k, v))
        has_several_tokens = q.shape[2] > 1
        if has_several_tokens:  # the prompt, whose tokens must not attend to later ones
            output: Var = self.adapter.model_module.attend_plainly(q, keys, values)
            return output
        # a single new token is the last one and attends to all, so there is nothing to mask
        scores = nn.bmm_transpose(q, keys) * q.shape[-1] ** -0.5
        return nn.bmm(nn.softmax(scores, dim=-1), values)

    def disable_gradients(self) -> AbstractContextManager[Any]:
        return jt.no_grad()  # type: ignore[no-any-return]

    def wait_for(self, *arrays: Var) -> None:
        """Compute these arrays and the cache now, so that graphs of tokens do not add up."""
        jt.sync([*arrays, *self.list_cached()])


def set_generator(adapter: JittorAdapter, cached: bool) -> JittorGenerator:
    """Prepare decoding with or without a cache, and return the generator."""
    generator = JittorGenerator(adapter)
    if cached:
        adapter.recipe.build_options["attend"] = generator.attend
    adapter.before_first_step.append(generator.read_prompt)
    adapter.recipe.step = generator.step
    adapter.recipe.read_logits = generator.read_logits
    return generator


def expect_cache_of(tokens: int, generator: JittorGenerator) -> Proof:
    """Return a proof that each token is computed once, and `tokens` are cached between steps."""

    def count_cached() -> Evidence:
        keys, *_ = generator.list_cached()
        return {"tokens_kept_between_steps": keys.shape[2]}

    cached = expect(tokens_kept_between_steps=tokens).counting(count_cached)
    return expect_computed_once(generator) & cached


@switch
def static_cache(adapter: JittorAdapter) -> Proof:
    """Write keys and values into arrays as long as the sequence will be."""
    generator = set_generator(adapter, cached=True)

    def make_empty() -> Var:
        c = adapter.config
        return jt.zeros((adapter.case.batch, c.heads, c.length, c.width // c.heads))

    def make_cache(_: Module) -> None:
        generator.cache = StaticCache(adapter.config.layers, make_empty)

    adapter.recipe.on_model.append(make_cache)
    return expect_cache_of(adapter.config.length, generator)


@switch
def growing_cache(adapter: JittorAdapter) -> Proof:
    """Make keys and values longer by each token."""
    generator = set_generator(adapter, cached=True)

    def join(old: Var, new: Var) -> Var:
        return jt.concat([old, new], 2)

    generator.cache = GrowingCache(adapter.config.layers, join)
    return expect_cache_of(generator.prompt, generator)


@switch
def no_cache(adapter: JittorAdapter) -> Proof:
    """Compute all tokens so far for each token."""
    return expect_recomputed(set_generator(adapter, cached=False))
