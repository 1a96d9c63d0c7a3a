"""How Jittor generates token by token with each kind of cache, and what proves it.

What is the same in PyTorch is in `adapters/caches.py`.
"""

from __future__ import annotations

import jittor as jt
import numpy as np
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

    def __init__(self, run: JittorAdapter) -> None:
        super().__init__(run)
        self.run = run
        self.collected: list[np.ndarray] | None = None  # logits, while `read_logits` asks for them

    def attend(self, q: Var, k: Var, v: Var) -> Var:
        """Return the attention of the layer whose turn it is to all tokens so far.

        Layers take turns in their order, which `extend_cache` counts. `q`, `k` and `v` are
        (batch, heads, new tokens, width of a head).
        """
        keys, values = self.extend_cache((k, v))
        has_several_tokens = q.shape[2] > 1
        if has_several_tokens:  # the prompt, whose tokens must not attend to later ones
            output: Var = self.run.model_module.attend_plainly(q, keys, values)
            return output
        # a single new token is the last one and attends to all, so there is nothing to mask
        scores = nn.bmm_transpose(q, keys) * q.shape[-1] ** -0.5
        return nn.bmm(nn.softmax(scores, dim=-1), values)

    def compute_logits(self, tokens: Var, start: int) -> Var:
        """Return logits (batch, tokens, vocabulary) of `tokens` (batch, tokens).

        `start` is the position of the first token. Adds to the count of computed tokens, which
        proves that the cache is used.
        """
        self.start = start
        self.computed += tokens.shape[1]
        logits: Var = self.run.model(tokens, start)
        return logits

    def wait_for(self, *variables: Var) -> None:
        """Compute these and the cache now: else the graphs of all tokens would be there at once."""
        arrays = self.cache.list_arrays() if self.cache else []
        jt.sync([*variables, *arrays])

    def read_prompt(self) -> Var:
        """Fill the cache with the prompt, keep its loss, and return its logits."""
        x, y = self.run.inputs
        with jt.no_grad():
            logits = self.compute_logits(x[:, : self.prompt], 0)
            self.prompt_loss = self.run.model_module.loss_sum(logits, y[:, : self.prompt])
            self.wait_for(self.prompt_loss)
        return logits

    def decode(self, x: Var, position: int) -> Var:
        """Return the logits of one token, computed alone or with all those before it."""
        if self.cache:
            return self.compute_logits(x[:, position : position + 1], position)
        return self.compute_logits(x[:, : position + 1], 0)[:, position:]

    def step(self) -> None:
        """Compute every token after the prompt, in one forward pass each."""
        run = self.run
        run.release()
        self.computed = 0
        x, y = run.inputs
        total = self.prompt_loss
        with jt.no_grad():
            for i in range(self.prompt, x.shape[1]):
                logits = self.decode(x, i)
                total = total + run.model_module.loss_sum(logits, y[:, i : i + 1])
                self.wait_for(total)
                if self.collected is not None:
                    self.collected.append(logits.numpy())
            if self.cache:
                self.cache_bytes = sum(var.nbytes for var in self.cache.list_arrays())
                self.cache.rewind(self.prompt)
                self.wait_for()
            run.output = total / x.numel()

    def read_logits(self) -> np.ndarray:
        """Return the logits of every token, from the prompt and one more step."""
        self.collected = [self.read_prompt().numpy()]
        self.step()
        logits = np.concatenate(self.collected, 1)
        self.collected = None
        return logits.astype(np.float64)


def set_generator(run: JittorAdapter, cached: bool) -> JittorGenerator:
    """Set the parts that all kinds share."""
    generator = JittorGenerator(run)
    if cached:
        run.recipe.build_options["attend"] = generator.attend
    run.before_first_step.append(generator.read_prompt)
    run.recipe.step = generator.step
    run.recipe.read_logits = generator.read_logits
    return generator


def expect_cache_of(tokens: int, generator: JittorGenerator) -> Proof:
    """Return a proof that each token is computed once, and so many are cached between steps."""

    def count_cached(_: Evidence) -> Evidence:
        assert generator.cache
        return {"tokens_kept_between_steps": generator.cache.list_arrays()[0].shape[2]}

    cached = expect(tokens_kept_between_steps=tokens).counting(count_cached)
    return expect_computed_once(generator) & cached


@switch
def static_cache(run: JittorAdapter) -> Proof:
    """Write keys and values into arrays as long as the sequence will be."""
    generator = set_generator(run, cached=True)

    def make_empty() -> Var:
        c = run.config
        return jt.zeros((run.case.batch, c.heads, c.length, c.width // c.heads))

    def make_cache(_: Module) -> None:
        generator.cache = StaticCache(run.config.layers, make_empty)

    run.recipe.on_model.append(make_cache)
    return expect_cache_of(run.config.length, generator)


@switch
def growing_cache(run: JittorAdapter) -> Proof:
    """Make keys and values longer by each token."""
    generator = set_generator(run, cached=True)

    def join(old: Var, new: Var) -> Var:
        return jt.concat([old, new], 2)

    generator.cache = GrowingCache(run.config.layers, join)
    return expect_cache_of(generator.prompt, generator)


@switch
def no_cache(run: JittorAdapter) -> Proof:
    """Compute all tokens so far for each token."""
    return expect_recomputed(set_generator(run, cached=False))
