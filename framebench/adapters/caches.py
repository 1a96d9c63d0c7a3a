"""What PyTorch and Jittor share of generation token by token: the caches, and their proofs.

The generated tokens are those of the batch, not the most likely ones: so every logit is known from
one forward pass over the whole sequence.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

from framebench.adapters.base import Adapter
from framebench.adapters.proof import Evidence, Proof, check, equal_to, expect
from framebench.suite.case import Case

KeysAndValues = tuple[Any, Any]  # of shape (batch, heads, tokens, width / heads) each


class Cache(ABC):
    """The keys and values of each layer, for the tokens so far."""

    layers: list[KeysAndValues | None]

    @abstractmethod
    def extend(self, layer: int, start: int, new: KeysAndValues) -> KeysAndValues:
        """Add those of the tokens from `start` on, and return all of the layer."""

    @abstractmethod
    def rewind(self, prompt: int) -> None:
        """Forget all tokens after the first `prompt` ones."""

    def list_arrays(self) -> list[Any]:
        """Return every array of keys or values."""
        arrays: list[Any] = []
        for keys_and_values in self.layers:
            arrays += keys_and_values or ()
        return arrays


class StaticCache(Cache):
    """Arrays as long as the sequence will be, made by `make_empty`."""

    def __init__(self, layers: int, make_empty: Callable[[], Any]) -> None:
        self.layers = [(make_empty(), make_empty()) for _ in range(layers)]

    def extend(self, layer: int, start: int, new: KeysAndValues) -> KeysAndValues:
        end = start + new[0].shape[2]
        arrays = self.layers[layer]
        assert arrays
        for whole, part in zip(arrays, new):
            whole[:, :, start:end] = part
        keys, values = arrays
        return keys[:, :, :end], values[:, :, :end]

    def rewind(self, prompt: int) -> None:
        """Do nothing: the next tokens are written over the old ones."""


class GrowingCache(Cache):
    """Arrays that `join` makes longer by each token.

    A rewound array is the first part of the longest one: in PyTorch a view, which is gone when the
    first new token has made another array; in Jittor a copy.
    """

    def __init__(self, layers: int, join: Callable[[Any, Any], Any]) -> None:
        self.layers = [None] * layers
        self.join = join

    def extend(self, layer: int, start: int, new: KeysAndValues) -> KeysAndValues:
        old = self.layers[layer]
        if start and old:
            new = self.join(old[0], new[0]), self.join(old[1], new[1])
        self.layers[layer] = new
        return new

    def rewind(self, prompt: int) -> None:
        for layer, keys_and_values in enumerate(self.layers):
            if keys_and_values:
                keys, values = keys_and_values
                self.layers[layer] = keys[:, :, :prompt], values[:, :, :prompt]


class TokenGenerator:
    """A step that computes every token after the prompt.

    The prompt's loss and its part of the cache are computed before the first step.
    """

    def __init__(self, run: Adapter) -> None:
        self.case = run.case
        self.config = run.config
        self.prompt = run.config.length - run.case.decoded  # tokens
        self.computed = 0  # tokens of a sequence, in the last step
        self.cache_bytes = 0  # when the cache had its last token
        self.cache: Cache | None = None
        self.layers: Iterator[int] = cycle(range(run.config.layers))
        self.start = 0  # the position of the first token that is being computed

    def extend_cache(self, new: KeysAndValues) -> KeysAndValues:
        """Return all keys and values of the layer whose turn it is, the new ones last."""
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


def expect_computed_once(generator: TokenGenerator) -> Proof:
    """Return a proof that every block computed each token once.

    The cache must have the size that the formula gives.
    """

    def each_block_ran_once(evidence: Evidence) -> bool:
        return bool(evidence["block_runs"] == evidence["blocks"] * evidence["forward_passes"])

    proof = expect(
        tokens_computed=equal_to("tokens_decoded"),
        forward_passes=equal_to("tokens_decoded"),
        cache_bytes=equal_to("cache_bytes_by_formula"),
    )
    once = check(each_block_ran_once, "each block ran once in a forward pass")
    return (proof & once).counting(generator.count_tokens)


def expect_recomputed(generator: TokenGenerator) -> Proof:
    """Return a proof that each token was computed with all those before it."""
    tokens = sum(range(generator.prompt + 1, generator.config.length + 1))
    proof = expect(tokens_computed=tokens, forward_passes=equal_to("tokens_decoded"))
    return proof.counting(generator.count_tokens)
