"""How PyTorch generates token by token with each kind of cache, and what proves it.

What is the same in Jittor is in `adapters/caches.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from framebench.adapters.base import Switches
from framebench.adapters.caches import GrowingCache, StaticCache, TokenGenerator, expect_computed_once, expect_recomputed
from framebench.adapters.proof import Evidence, Proof, equal_to, expect
from framebench.adapters.torch.adapter import TorchAdapter
from framebench.adapters.torch.observe import unique_bytes

switch = Switches()


class Steps(TokenGenerator):
    def __init__(self, run: TorchAdapter) -> None:
        super().__init__(run)
        self.run = run
        self.collected: list[Tensor] | None = None  # logits, where somebody asks for them

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys, values = self.extend_cache((k, v))
        return F.scaled_dot_product_attention(q, keys, values, is_causal=q.shape[2] > 1)

    def __call__(self, tokens: Tensor, start: int) -> Tensor:
        self.start = start
        self.computed += tokens.shape[1]
        logits: Tensor = self.run.model(tokens, start)
        if self.collected is not None:
            self.collected.append(logits[:, -1:] if self.cache is None and start == 0 < len(self.collected) else logits)
        return logits

    def begin(self) -> None:
        """Read the prompt."""
        x, y = self.run.inputs
        with torch.no_grad(), self.run.context():
            logits = self(x[:, : self.prompt], 0)
            self.loss_of_prompt = self.run.model_module.loss_sum(logits, y[:, : self.prompt])

    def step(self) -> None:
        run = self.run
        run.release()
        self.computed = 0
        x, y = run.inputs
        total = self.loss_of_prompt.clone()
        with torch.no_grad(), run.context():
            for i in range(self.prompt, x.shape[1]):
                logits = self(x[:, i : i + 1], i) if self.cache else self(x[:, : i + 1], 0)[:, -1:]
                total += run.model_module.loss_sum(logits, y[:, i : i + 1])
        if self.cache:
            self.cache_bytes = unique_bytes(self.cache.list_arrays())
            self.cache.rewind(self.prompt)
        run.output = total / x.numel()

    def logits(self) -> np.ndarray:
        """Return those of every token, from reading the prompt once more and one more step."""
        self.collected = []
        self.begin()
        self.step()
        token_logits, self.collected = torch.cat(self.collected, 1), None
        return token_logits.to("cpu", torch.float64).numpy()

    def bytes_per_number(self) -> int:
        return next(self.run.model.parameters()).element_size()


def generation(run: TorchAdapter, cached: bool) -> Steps:
    """Set the parts that all kinds share."""
    token_generator = Steps(run)
    if cached:
        run.recipe.model_options["attend"] = token_generator.attend
    run.before_first_step.append(token_generator.begin)
    run.recipe.step, run.readings.decoded = token_generator.step, token_generator.logits
    run.readings.bytes_beside = lambda: unique_bytes(token_generator.cache.list_arrays()) if token_generator.cache else 0
    return token_generator


@switch
def static_cache(run: TorchAdapter) -> Proof:
    token_generator = generation(run, cached=True)

    def make(model: Any) -> None:
        token_generator.cache = static(run, model)

    def count_moved(_: Evidence) -> Evidence:
        assert token_generator.cache
        before = [t.data_ptr() for t in token_generator.cache.list_arrays()]
        run.one_step()
        after = [t.data_ptr() for t in token_generator.cache.list_arrays()]
        return {"arrays_that_moved": sum(new != old for new, old in zip(after, before))}

    run.recipe.on_model.append(make)
    in_place = expect({"arrays_that_moved": 0, "operators.cat": 0}).counting(count_moved)
    return in_place & expect_computed_once(token_generator)


def static(run: TorchAdapter, model: Any) -> StaticCache:
    c, like = run.config, model.wte.weight.detach()
    return StaticCache(c.layers, lambda: like.new_empty((run.case.batch, c.heads, c.length, c.width // c.heads)))


@switch
def growing_cache(run: TorchAdapter) -> Proof:
    token_generator = generation(run, cached=True)
    token_generator.cache = growing(run)

    keys_and_values = expect({"operators.cat": equal_to("block_runs", times=2)})
    return expect_computed_once(token_generator) & keys_and_values


def growing(run: TorchAdapter) -> GrowingCache:
    return GrowingCache(run.config.layers, lambda old, new: torch.cat((old, new), 2))


@switch
def no_cache(run: TorchAdapter) -> Proof:
    return expect_recomputed(generation(run, cached=False))
