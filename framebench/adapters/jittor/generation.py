"""How Jittor generates token by token with each kind of cache, and what proves it.

What is the same in PyTorch is in `adapters/caches.py`.
"""

from __future__ import annotations

import jittor as jt
import numpy as np
from jittor import Var, nn

from framebench.adapters.base import Switches
from framebench.adapters.caches import GrowingCache, StaticCache, TokenGenerator, expect_computed_once, expect_recomputed
from framebench.adapters.jittor.adapter import JittorAdapter
from framebench.adapters.proof import Evidence, Proof, expect

switch = Switches()


class Steps(TokenGenerator):
    def __init__(self, run: JittorAdapter) -> None:
        super().__init__(run)
        self.run = run
        self.collecting = False  # logits, while somebody asks for them
        self.collected: list[np.ndarray] = []

    def attend(self, q: Var, k: Var, v: Var) -> Var:
        keys, values = self.extend_cache((k, v))
        if q.shape[2] > 1:
            output: Var = self.run.model_module.attention(q, keys, values)
            return output
        scores = nn.bmm_transpose(q, keys) * q.shape[-1] ** -0.5
        return nn.bmm(nn.softmax(scores, dim=-1), values)

    def __call__(self, tokens: Var, start: int) -> Var:
        self.start = start
        self.computed += tokens.shape[1]
        logits: Var = self.run.model(tokens, start)
        return logits

    def collect(self, logits: Var) -> None:
        if self.collecting:
            self.collected.append(logits.numpy())

    def wait(self, *computed: Var) -> None:
        """Compute what is asked for now: else the graphs of all tokens would be there at once."""
        jt.sync([*computed, *(self.cache.list_arrays() if self.cache else ())])

    def begin(self) -> None:
        """Read the prompt."""
        x, y = self.run.inputs
        with jt.no_grad():
            logits = self(x[:, : self.prompt], 0)
            self.loss_of_prompt = self.run.model_module.loss_sum(logits, y[:, : self.prompt])
            self.wait(self.loss_of_prompt)
            self.collected = []
            self.collect(logits)

    def step(self) -> None:
        run = self.run
        run.release()
        self.computed = 0
        x, y = run.inputs
        total = self.loss_of_prompt
        with jt.no_grad():
            for i in range(self.prompt, x.shape[1]):
                logits = self(x[:, i : i + 1], i) if self.cache else self(x[:, : i + 1], 0)[:, i:]
                total = total + run.model_module.loss_sum(logits, y[:, i : i + 1])
                self.wait(total)
                self.collect(logits)
            if self.cache:
                self.cache_bytes = sum(var.nbytes for var in self.cache.list_arrays())
                self.cache.rewind(self.prompt)
                self.wait()
            run.output = total / x.numel()

    def logits(self) -> np.ndarray:
        """Return those of every token, from reading the prompt once more and one more step."""
        self.collecting = True
        self.begin()
        self.step()
        self.collecting = False
        return np.concatenate(self.collected, 1).astype(np.float64)


def generation(run: JittorAdapter, cached: bool) -> Steps:
    """Set the parts that all kinds share."""
    token_generator = Steps(run)
    if cached:
        run.recipe.build_options["attend"] = token_generator.attend
    run.before_first_step.append(token_generator.begin)
    run.recipe.step, run.recipe.decoded = token_generator.step, token_generator.logits
    return token_generator


def expect_cache_of(tokens: int, token_generator: Steps) -> Proof:
    """Return a proof that each token is computed once, and that the cache has so many between two steps."""

    def count_cached(_: Evidence) -> Evidence:
        assert token_generator.cache
        return {"tokens_kept_between_steps": token_generator.cache.list_arrays()[0].shape[2]}

    cached = expect(tokens_kept_between_steps=tokens).counting(count_cached)
    return expect_computed_once(token_generator) & cached


@switch
def static_cache(run: JittorAdapter) -> Proof:
    token_generator = generation(run, cached=True)

    def make(_: object) -> None:
        c = run.config
        token_generator.cache = StaticCache(c.layers, lambda: jt.zeros((run.case.batch, c.heads, c.length, c.width // c.heads)))

    run.recipe.on_model.append(make)
    return expect_cache_of(run.config.length, token_generator)


@switch
def growing_cache(run: JittorAdapter) -> Proof:
    token_generator = generation(run, cached=True)
    token_generator.cache = GrowingCache(run.config.layers, lambda old, new: jt.concat([old, new], 2))
    return expect_cache_of(token_generator.prompt, token_generator)


@switch
def no_cache(run: JittorAdapter) -> Proof:
    return expect_recomputed(generation(run, cached=False))
