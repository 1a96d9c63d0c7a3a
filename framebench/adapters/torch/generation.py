"""PyTorch's switches for generation token by token, with each kind of cache.

What is the same in Jittor is in `adapters/caches.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from framebench.adapters.base import Switches
from framebench.adapters.caches import (
    GrowingCache,
    StaticCache,
    TokenGenerator,
    expect_computed_once,
    expect_recomputed,
)
from framebench.adapters.proof import Evidence, Proof, equal_to, expect
from framebench.adapters.torch.adapter import TorchAdapter
from framebench.adapters.torch.observe import unique_bytes

switch = Switches()


class TorchGenerator(TokenGenerator):
    """The step of `generate` in PyTorch, and the parts of its model that use the cache."""

    def __init__(self, run: TorchAdapter) -> None:
        super().__init__(run)
        self.run = run
        self.collected: list[Tensor] | None = None  # logits, while `read_logits` asks for them

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend to all tokens so far: the model's option `attend`."""
        keys, values = self.extend_cache((k, v))
        return F.scaled_dot_product_attention(q, keys, values, is_causal=q.shape[2] > 1)

    def compute_logits(self, tokens: Tensor, start: int) -> Tensor:
        """Return logits (batch, tokens, vocabulary) of `tokens` (batch, tokens).

        `start` is the position of the first token. Adds to the count of computed tokens, which
        proves that the cache is used.
        """
        self.start = start
        self.computed += tokens.shape[1]
        logits: Tensor = self.run.model(tokens, start)
        return logits

    def read_prompt(self) -> Tensor:
        """Fill the cache with the prompt, keep its loss, and return its logits."""
        x, y = self.run.inputs
        with torch.no_grad(), self.run.context():
            logits = self.compute_logits(x[:, : self.prompt], 0)
            self.prompt_loss: Tensor = self.run.model_module.loss_sum(logits, y[:, : self.prompt])
        return logits

    def step(self) -> None:
        """Compute every token after the prompt, and the mean loss of all."""
        run = self.run
        run.release()
        self.computed = 0
        x, y = run.inputs
        total = self.prompt_loss.clone()
        with torch.no_grad(), run.context():
            for i in range(self.prompt, x.shape[1]):
                if self.cache:
                    logits = self.compute_logits(x[:, i : i + 1], i)
                else:
                    logits = self.compute_logits(x[:, : i + 1], 0)[:, -1:]
                if self.collected is not None:
                    self.collected.append(logits)
                total += run.model_module.loss_sum(logits, y[:, i : i + 1])
        if self.cache:
            self.cache_bytes = unique_bytes(self.cache.list_arrays())
            self.cache.rewind(self.prompt)
        run.output = total / x.numel()

    def read_logits(self) -> np.ndarray:
        """Return the logits of every token, from the prompt and one more step."""
        self.collected = [self.read_prompt()]
        self.step()
        logits = torch.cat(self.collected, 1)
        self.collected = None
        return logits.to("cpu", torch.float64).numpy()

    def bytes_per_number(self) -> int:
        return next(self.run.model.parameters()).element_size()


def set_generator(run: TorchAdapter, cached: bool) -> TorchGenerator:
    """Set the parts that all kinds of caches share, and return the generator."""
    generator = TorchGenerator(run)

    def cache_bytes() -> int:
        return unique_bytes(generator.cache.list_arrays()) if generator.cache else 0

    if cached:
        run.recipe.model_options["attend"] = generator.attend
    run.before_first_step.append(generator.read_prompt)
    run.recipe.step = generator.step
    run.readings.read_logits = generator.read_logits
    run.readings.extra_bytes = cache_bytes
    return generator


@switch
def static_cache(run: TorchAdapter) -> Proof:
    """Keep keys and values in arrays as long as the sequence."""
    generator = set_generator(run, cached=True)

    def attach(model: Any) -> None:
        generator.cache = make_static_cache(run, model)

    def count_moved(_: Evidence) -> Evidence:
        assert generator.cache
        before = [array.data_ptr() for array in generator.cache.list_arrays()]
        run.one_step()
        after = [array.data_ptr() for array in generator.cache.list_arrays()]
        return {"arrays_that_moved": sum(new != old for new, old in zip(after, before))}

    run.recipe.on_model.append(attach)
    in_place = expect({"arrays_that_moved": 0, "operators.cat": 0}).counting(count_moved)
    return in_place & expect_computed_once(generator)


def make_static_cache(run: TorchAdapter, model: Any) -> StaticCache:
    """Return an empty cache of the weights' type and device."""
    c = run.config
    shape = (run.case.batch, c.heads, c.length, c.width // c.heads)
    weight = model.wte.weight.detach()
    return StaticCache(c.layers, lambda: weight.new_empty(shape))


@switch
def growing_cache(run: TorchAdapter) -> Proof:
    """Append keys and values of each token to those before."""
    generator = set_generator(run, cached=True)
    generator.cache = make_growing_cache(run)
    keys_and_values = expect({"operators.cat": equal_to("block_runs", times=2)})
    return expect_computed_once(generator) & keys_and_values


def make_growing_cache(run: TorchAdapter) -> GrowingCache:
    """Return an empty cache."""
    return GrowingCache(run.config.layers, lambda old, new: torch.cat((old, new), 2))


@switch
def no_cache(run: TorchAdapter) -> Proof:
    """Compute each token with all those before it."""
    return expect_recomputed(set_generator(run, cached=False))
