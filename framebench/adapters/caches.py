"""Generate token by token in PyTorch and Jittor: the step, the caches, and their proofs.

The generated tokens are those of the batch, not the most likely ones. One forward pass over the
whole sequence therefore gives the reference of every logit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import cycle
from typing import Any

import numpy as np

from framebench.adapters.proof import Evidence, Proof, equal_to, expect
from framebench.suite.case import Case

KeysAndValues = tuple[Any, Any]  # of shape (batch, heads, tokens, width / heads) each


class StaticCache:
    """Keep keys and values of each layer in arrays as long as the sequence.

    `make_empty` makes the arrays.
    """

    def __init__(self, layers: int, make_empty: Callable[[], Any]) -> None:
        """Make the arrays of each layer, one for keys and one for values."""
        self.layers = [(make_empty(), make_empty()) for _ in range(layers)]

    def extend(self, layer: int, start: int, new: KeysAndValues) -> KeysAndValues:
        """Add keys and values of the tokens from `start` on; return all that the layer has."""
        new_keys, _ = new
        end = start + new_keys.shape[2]
        arrays = self.layers[layer]
        for array, new_numbers in zip(arrays, new):
            array[:, :, start:end] = new_numbers
        keys, values = arrays
        return keys[:, :, :end], values[:, :, :end]

    def rewind(self, prompt: int) -> None:
        """Do nothing: the next tokens are written over the old ones."""


class GrowingCache:
    """Keys and values of each layer in arrays that `join` makes longer by each token.

    Rewinding keeps the first part of each array: in PyTorch a view of it, until the first new token
    makes another array; in Jittor a copy.
    """

    def __init__(self, layers: int, join: Callable[[Any, Any], Any]) -> None:
        """Begin with nothing; `join(a, b)` concatenates two arrays along the axis of the tokens."""
        self.layers: list[Any] = [()] * layers  # a layer is empty until its first tokens
        self.join = join

    def extend(self, layer: int, start: int, new: KeysAndValues) -> KeysAndValues:
        """Add keys and values of the tokens from `start` on; return all that the layer has."""
        if start == 0:  # another sequence begins
            self.layers[layer] = ()
        extended = new
        if self.layers[layer]:
            keys, values = self.layers[layer]
            new_keys, new_values = new
            extended = self.join(keys, new_keys), self.join(values, new_values)
        self.layers[layer] = extended
        return extended

    def rewind(self, prompt: int) -> None:
        """Forget all tokens after the first `prompt` ones."""
        for layer, arrays in enumerate(self.layers):
            self.layers[layer] = tuple(array[:, :, :prompt] for array in arrays)


class LogitsReader(ABC):
    """A generator that can return the logits of the tokens that it computes."""

    def __init__(self) -> None:
        """Collect nothing until `read_logits` asks for it."""
        self.collected: list[np.ndarray] | None = None

    @abstractmethod
    def read_prompt(self) -> Any:
        """Fill the cache with the prompt, keep its loss, and return its logits."""

    @abstractmethod
    def step(self) -> None:
        """Compute every token after the prompt, and `collect` the logits of each."""

    @abstractmethod
    def to_numpy(self, logits: Any) -> np.ndarray:
        """Return logits as a NumPy array of the same shape, (batch, tokens, vocabulary)."""

    def collect(self, logits: Any) -> None:
        """Keep the logits of one token, (batch, 1, vocabulary), if somebody reads them."""
        if self.collected is not None:
            self.collected.append(self.to_numpy(logits))

    def read_logits(self) -> np.ndarray:
        """Return the logits of every token, from the prompt and one more step."""
        self.collected = [self.to_numpy(self.read_prompt())]
        self.step()
        logits = np.concatenate(self.collected, 1)
        self.collected = None
        return logits.astype(np.float64)


class TokenGenerator(LogitsReader):
    """A step that computes every token after the prompt.

    The prompt's loss and its part of the cache are computed before the first step.
    """

    def __init__(self, adapter: Any) -> None:
        """Begin without a cache: the switch of a strategy with a cache sets `cache`."""
        super().__init__()
        self.adapter = adapter
        self.prompt: int = adapter.config.length - adapter.case.decoded  # tokens
        self.tokens_computed = 0  # tokens of a sequence, in the last step
        self.cache_bytes = 0  # when the cache had its last token
        self.cache: StaticCache | GrowingCache | None = None
        self.layers: Iterator[int] = cycle(range(adapter.config.layers))
        self.start = 0  # the position of the first token that is being computed

    @abstractmethod
    def disable_gradients(self) -> AbstractContextManager[Any]:
        """Return the context of all forward passes."""

    def to_numpy(self, logits: Any) -> Any:
        return logits.numpy()

    def wait_for(self, *arrays: Any) -> None:
        """Compute these arrays and the cache now, where the framework is lazy."""

    def list_cached(self) -> list[Any]:
        """Return every array of keys or values."""
        arrays: list[Any] = []
        if self.cache:
            for keys_and_values in self.cache.layers:
                arrays += keys_and_values
        return arrays

    def measure_cache(self) -> int:
        """Return the bytes of the cache now."""
        return sum(array.nbytes for array in self.list_cached())

    def extend_cache(self, new: KeysAndValues) -> KeysAndValues:
        """Return all keys and values of the layer whose turn it is, the new ones last."""
        assert self.cache
        return self.cache.extend(next(self.layers), self.start, new)

    def compute_logits(self, tokens: Any, start: int) -> Any:
        """Return logits (batch, tokens, vocabulary) of `tokens` (batch, tokens).

        `start` is the position of the first token. Adds to the count of computed tokens, which
        proves that the cache is used.
        """
        self.start = start
        self.tokens_computed += tokens.shape[1]
        return self.adapter.model(tokens, start)

    def read_prompt(self) -> Any:
        x, y = self.adapter.inputs
        with self.disable_gradients():
            logits = self.compute_logits(x[:, : self.prompt], 0)
            self.prompt_loss = self.adapter.model_module.loss_sum(logits, y[:, : self.prompt])
            self.wait_for(self.prompt_loss)
        return logits

    def decode(self, x: Any, position: int) -> Any:
        """Return the logits of one token, computed alone or with all those before it."""
        if self.cache:
            return self.compute_logits(x[:, position : position + 1], position)
        return self.compute_logits(x[:, : position + 1], 0)[:, position:]

    def step(self) -> None:
        """Compute every token after the prompt, in one forward pass each, and the mean loss."""
        adapter = self.adapter
        adapter.release()
        self.tokens_computed = 0
        x, y = adapter.inputs
        total = self.prompt_loss
        with self.disable_gradients():
            for i in range(self.prompt, x.shape[1]):
                logits = self.decode(x, i)
                total = total + adapter.model_module.loss_sum(logits, y[:, i : i + 1])
                self.wait_for(total)
                self.collect(logits)
            if self.cache:
                self.cache_bytes = self.measure_cache()
                self.cache.rewind(self.prompt)
                self.wait_for()
            adapter.output = total / x.numel()

    def count_tokens(self) -> Evidence:
        """Return how many tokens the last step has computed, and the size of the cache."""
        bytes_per_number = 0
        for array in self.list_cached():
            bytes_per_number = array.nbytes // array.numel()
        return {
            "tokens_decoded": self.adapter.case.decoded,
            "tokens_computed": self.tokens_computed,
            "cache_bytes": self.cache_bytes,
            "cache_bytes_by_formula": compute_cache_bytes(self.adapter.case, bytes_per_number),
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
    layers = generator.adapter.config.layers
    proof = expect(
        tokens_computed=equal_to("tokens_decoded"),
        forward_passes=equal_to("tokens_decoded"),
        block_runs=equal_to("tokens_decoded", times=layers),
        cache_bytes=equal_to("cache_bytes_by_formula"),
    )
    return proof.counting(generator.count_tokens)


def expect_recomputed(generator: TokenGenerator) -> Proof:
    """Return a proof that each token was computed with all those before it."""
    tokens = sum(range(generator.prompt + 1, generator.adapter.config.length + 1))
    proof = expect(tokens_computed=tokens, forward_passes=equal_to("tokens_decoded"))
    return proof.counting(generator.count_tokens)
