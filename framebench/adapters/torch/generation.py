"""PyTorch's switches for generation token by token, with each kind of cache.

What is the same in Jittor is in `adapters/caches.py`.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

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
from framebench.adapters.torch.observe import count_unique_bytes

switch = Switches()


class TorchGenerator(TokenGenerator):
    """The step of `generate` in PyTorch."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend to all tokens so far: the model's option `attend`.

        The tokens of the prompt must not attend to later ones; a single new token is the last one.
        """
        keys, values = self.extend_cache((k, v))
        return F.scaled_dot_product_attention(q, keys, values, is_causal=q.shape[2] > 1)

    def disable_gradients(self) -> ExitStack:
        stack: ExitStack = self.adapter.context()
        stack.enter_context(torch.no_grad())
        return stack

    def measure_cache(self) -> int:
        return count_unique_bytes(self.list_cached())  # a rewound array is a view of a larger one

    def to_numpy(self, logits: Tensor) -> Any:
        return logits.to("cpu", torch.float64).numpy()


def set_generator(adapter: TorchAdapter, cached: bool) -> TorchGenerator:
    """Prepare decoding with or without a cache, and return the generator."""
    generator = TorchGenerator(adapter)
    if cached:
        adapter.recipe.model_options["attend"] = generator.attend
    adapter.before_first_step.append(generator.read_prompt)
    adapter.recipe.step = generator.step
    adapter.readings.read_logits = generator.read_logits
    adapter.readings.extra_bytes = generator.measure_cache
    return generator


@switch
def static_cache(adapter: TorchAdapter) -> Proof:
    """Keep keys and values in arrays as long as the sequence."""
    generator = set_generator(adapter, cached=True)

    def attach(model: Any) -> None:
        generator.cache = make_static_cache(adapter, model)

    def count_moved() -> Evidence:
        before = [array.data_ptr() for array in generator.list_cached()]
        adapter.one_step()
        after = [array.data_ptr() for array in generator.list_cached()]
        return {"arrays_that_moved": sum(new != old for new, old in zip(after, before))}

    adapter.recipe.on_model.append(attach)
    in_place = expect({"arrays_that_moved": 0, "operators.cat": 0}).counting(count_moved)
    return in_place & expect_computed_once(generator)


def make_static_cache(adapter: TorchAdapter, model: Any) -> StaticCache:
    """Return an empty cache of the weights' type and device."""
    c = adapter.config
    shape = (adapter.case.batch, c.heads, c.length, c.width // c.heads)
    weight = model.wte.weight.detach()
    return StaticCache(c.layers, lambda: weight.new_empty(shape))


@switch
def growing_cache(adapter: TorchAdapter) -> Proof:
    """Append the keys and values of each token to those of earlier tokens."""
    generator = set_generator(adapter, cached=True)
    generator.cache = make_growing_cache(adapter)
    keys_and_values = expect({"operators.cat": equal_to("block_runs", times=2)})
    return expect_computed_once(generator) & keys_and_values


def make_growing_cache(adapter: TorchAdapter) -> GrowingCache:
    """Return a cache without tokens, which grows along the axis of tokens, the third."""
    return GrowingCache(adapter.config.layers, lambda old, new: torch.cat((old, new), 2))


@switch
def no_cache(adapter: TorchAdapter) -> Proof:
    """Compute each token with all those before it."""
    return expect_recomputed(set_generator(adapter, cached=False))
