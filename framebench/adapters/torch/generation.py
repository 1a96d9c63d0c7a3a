"""How PyTorch generates token by token with each kind of cache, and what proves it. The tokens are those of the batch, not what
the model would say next: so every one of its logits is known from one pass over the whole sequence."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from framebench.adapters.base import Evidence, Proof, Switches
from framebench.adapters.torch.adapter import TorchAdapter
from framebench.adapters.torch.observe import unique_bytes

switch = Switches()
Both = tuple[Tensor, Tensor]  # keys and values, (batch, head, tokens, width / heads) each


class Cache(Protocol):
    """Of each layer, keys and values of the tokens so far."""

    def extend(self, layer: int, start: int, new: Both) -> Both:
        """All of them, with those of the tokens from `start` on."""

    def rewind(self, prompt: int) -> None:
        """Back to where only those of the prompt were there."""

    def tensors(self) -> list[Tensor]: ...


class Static:
    def __init__(self, layers: int, shape: tuple[int, ...], like: Tensor) -> None:
        self.kept = [(like.new_empty(shape), like.new_empty(shape)) for _ in range(layers)]

    def extend(self, layer: int, start: int, new: Both) -> Both:
        end = start + new[0].shape[2]
        for whole, part in zip(self.kept[layer], new):
            whole[:, :, start:end] = part
        keys, values = self.kept[layer]
        return keys[:, :, :end], values[:, :, :end]

    def rewind(self, prompt: int) -> None: ...

    def tensors(self) -> list[Tensor]:
        return [t for both in self.kept for t in both]


class Growing:
    """A rewound one is a view of the longest, which is gone when the first new token has made another."""

    def __init__(self, layers: int) -> None:
        self.kept: list[Both | None] = [None] * layers

    def extend(self, layer: int, start: int, new: Both) -> Both:
        old = self.kept[layer]
        if start and old:
            new = torch.cat((old[0], new[0]), 2), torch.cat((old[1], new[1]), 2)
        self.kept[layer] = new
        return new

    def rewind(self, prompt: int) -> None:
        self.kept = [(both[0][:, :, :prompt], both[1][:, :, :prompt]) if both else None for both in self.kept]

    def tensors(self) -> list[Tensor]:
        return [t for both in self.kept if both for t in both]


class Generation:
    """One step gives every token after the prompt, whose loss and cache are there already."""

    def __init__(self, run: TorchAdapter) -> None:
        self.run = run
        self.prompt = run.config.length - run.case.decoded
        self.computed = 0  # tokens of a sequence, in the last step
        self.cache_bytes = 0  # when it had its last token
        self.cache: Cache | None = None
        self.layers: Iterator[int] = cycle(range(run.config.layers))
        self.start = 0
        self.collected: list[Tensor] | None = None  # logits, where somebody asks for them

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        assert self.cache
        keys, values = self.cache.extend(next(self.layers), self.start, (k, v))
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
            self.cache_bytes = unique_bytes(self.cache.tensors())
            self.cache.rewind(self.prompt)
        run.output = total / x.numel()

    def logits(self) -> np.ndarray:
        """Of every token, from the prompt read once more and one more step."""
        self.collected = []
        self.begin()
        self.step()
        found, self.collected = torch.cat(self.collected, 1), None
        return found.to("cpu", torch.float64).numpy()

    def evidence(self) -> Evidence:
        c, batch = self.run.config, self.run.case.batch
        return {
            "tokens_decoded": self.run.case.decoded,
            "tokens_computed": self.computed,
            "cache_bytes": self.cache_bytes,
            "cache_bytes_by_formula": 2
            * c.layers
            * c.width
            * c.length
            * batch
            * next(self.run.model.parameters()).element_size(),
        }


def generation(run: TorchAdapter, cached: bool) -> Generation:
    """What is common to all kinds."""
    found = Generation(run)
    if cached:
        run.recipe.model_options["attend"] = found.attend
    run.before_first_step.append(found.begin)
    run.recipe.step, run.readings.decoded = found.step, found.logits
    run.readings.bytes_beside = lambda: unique_bytes(found.cache.tensors()) if found.cache else 0
    return found


def cached(e: Evidence) -> bool:
    """Each token is computed once, by every block, and the cache is as large as it must be."""
    once = (
        e["tokens_computed"] == e["tokens_decoded"] == e["forward_passes"]
        and e["block_runs"] == e["blocks"] * e["forward_passes"]
    )
    return bool(once and e["cache_bytes"] == e["cache_bytes_by_formula"])


@switch
def static_cache(run: TorchAdapter) -> Proof:
    found = generation(run, cached=True)

    def make(model: Any) -> None:
        c = run.config
        found.cache = Static(c.layers, (run.case.batch, c.heads, c.length, c.width // c.heads), model.wte.weight.detach())

    def proof(e: Evidence) -> bool:
        assert found.cache
        before = [t.data_ptr() for t in found.cache.tensors()]
        run.one_step()
        e |= found.evidence()
        e["arrays_that_moved"] = sum(t.data_ptr() != old for t, old in zip(found.cache.tensors(), before))
        return cached(e) and e["arrays_that_moved"] == 0 == e["operators"].get("cat", 0)

    run.recipe.on_model.append(make)
    return proof


@switch
def growing_cache(run: TorchAdapter) -> Proof:
    found = generation(run, cached=True)
    found.cache = Growing(run.config.layers)

    def proof(e: Evidence) -> bool:
        e |= found.evidence()
        return cached(e) and e["operators"].get("cat", 0) == 2 * e["block_runs"]

    return proof


@switch
def no_cache(run: TorchAdapter) -> Proof:
    found = generation(run, cached=False)

    def proof(e: Evidence) -> bool:
        e |= found.evidence()
        anew = sum(range(found.prompt + 1, run.config.length + 1))
        return e["tokens_computed"] == anew and e["forward_passes"] == e["tokens_decoded"]

    return proof
