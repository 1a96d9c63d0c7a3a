"""What PyTorch and Jittor share of generation token by token: the caches, and what proves them.

The tokens are those of the batch, not what the model would say next: so every one of its logits is known from one pass over
the whole sequence.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

from framebench.adapters.base import Adapter
from framebench.adapters.proof import Evidence, Proof, check, equal_to, expect
from framebench.suite.case import Case

KeysAndValues = tuple[Any, Any]  # keys and values, (batch, head, tokens, width / heads) each


class Cache(ABC):
    """The keys and values of each layer, of the tokens so far."""

    arrays: list[KeysAndValues | None]

    @abstractmethod
    def extend(self, layer: int, start: int, new: KeysAndValues) -> KeysAndValues:
        """Add those of the tokens from `start` on, and return all keys and values of the layer."""

    @abstractmethod
    def rewind(self, prompt: int) -> None:
        """Go back to where only those of the prompt were there."""

    def list_arrays(self) -> list[Any]:
        """Return every array of keys or values."""
        arrays: list[Any] = []
        for both in self.arrays:
            arrays += both or ()
        return arrays


class StaticCache(Cache):
    """Arrays as long as the sequence will be, made by `empty`."""

    def __init__(self, layers: int, empty: Callable[[], Any]) -> None:
        self.arrays = [(empty(), empty()) for _ in range(layers)]

    def extend(self, layer: int, start: int, new: KeysAndValues) -> KeysAndValues:
        end = start + new[0].shape[2]
        arrays = self.arrays[layer]
        assert arrays
        for whole, part in zip(arrays, new):
            whole[:, :, start:end] = part
        keys, values = arrays
        return keys[:, :, :end], values[:, :, :end]

    def rewind(self, prompt: int) -> None: ...


class GrowingCache(Cache):
    """Arrays that `join` makes longer by each token.

    A rewound one is the first part of the longest: a view in PyTorch, gone when the first new token has made another; a copy
    in Jittor.
    """

    def __init__(self, layers: int, join: Callable[[Any, Any], Any]) -> None:
        self.arrays = [None] * layers
        self.join = join

    def extend(self, layer: int, start: int, new: KeysAndValues) -> KeysAndValues:
        old = self.arrays[layer]
        if start and old:
            new = self.join(old[0], new[0]), self.join(old[1], new[1])
        self.arrays[layer] = new
        return new

    def rewind(self, prompt: int) -> None:
        for layer, both in enumerate(self.arrays):
            if both:
                keys, values = both
                self.arrays[layer] = keys[:, :, :prompt], values[:, :, :prompt]


class TokenGenerator:
    """A step that gives every token after the prompt, whose loss and cache are there already."""

    def __init__(self, run: Adapter) -> None:
        self.case, self.config = run.case, run.config
        self.prompt = run.config.length - run.case.decoded
        self.computed = 0  # tokens of a sequence, in the last step
        self.cache_bytes = 0  # when it had its last token
        self.cache: Cache | None = None
        self.layers: Iterator[int] = cycle(range(run.config.layers))
        self.start = 0

    def extend_cache(self, new: KeysAndValues) -> KeysAndValues:
        """Return keys and values of the layer whose turn it is: those of the tokens so far, and the new ones."""
        assert self.cache
        return self.cache.extend(next(self.layers), self.start, new)

    def bytes_per_number(self) -> int:
        """Return the bytes of each number in the cache."""
        return 4

    def count_tokens(self, _: Evidence) -> Evidence:
        """Return how many tokens the last step has computed, and the size of the cache."""
        return {
            "tokens_decoded": self.case.decoded,
            "tokens_computed": self.computed,
            "cache_bytes": self.cache_bytes,
            "cache_bytes_by_formula": compute_cache_bytes(self.case, self.bytes_per_number()),
        }


def compute_cache_bytes(case: Case, bytes_per_number: int) -> int:
    """Return the bytes of keys and values of every layer and token."""
    c = case.config
    numbers = 2 * c.layers * c.width * c.length * case.batch
    return int(numbers * bytes_per_number)


def expect_computed_once(generation: TokenGenerator) -> Proof:
    """Return a proof that every block computed each token once, and that the cache is as large as it must be."""

    def each_block_ran_once(e: Evidence) -> bool:
        return bool(e["block_runs"] == e["blocks"] * e["forward_passes"])

    proof = expect(
        tokens_computed=equal_to("tokens_decoded"),
        forward_passes=equal_to("tokens_decoded"),
        cache_bytes=equal_to("cache_bytes_by_formula"),
    )
    once = check(each_block_ran_once, "each block ran once in a forward pass")
    return (proof & once).counting(generation.count_tokens)


def expect_recomputed(generation: TokenGenerator) -> Proof:
    """Return a proof that each token was computed with all those before it."""
    tokens = sum(range(generation.prompt + 1, generation.config.length + 1))
    proof = expect(tokens_computed=tokens, forward_passes=equal_to("tokens_decoded"))
    return proof.counting(generation.count_tokens)
