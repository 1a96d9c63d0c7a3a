"""How Jittor generates token by token with each kind of cache, and what proves it. The tokens are those of the batch, not what
the model would say next: so every one of its logits is known from one pass over the whole sequence."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import Protocol

import jittor as jt
import numpy as np
from jittor import Var, nn

from framebench.adapters.base import Evidence, Proof, Switches
from framebench.adapters.jittor.adapter import JittorAdapter

switch = Switches()
Both = tuple[Var, Var]  # keys and values, (batch, head, tokens, width / heads) each


class Cache(Protocol):
    """Of each layer, keys and values of the tokens so far."""

    kept: list[Both]

    def extend(self, layer: int, start: int, new: Both) -> Both:
        """All of them, with those of the tokens from `start` on."""

    def rewind(self, prompt: int) -> None:
        """Back to where only those of the prompt were there."""


class Static:
    def __init__(self, layers: int, shape: tuple[int, ...]) -> None:
        self.kept: list[Both] = [(jt.zeros(shape), jt.zeros(shape)) for _ in range(layers)]

    def extend(self, layer: int, start: int, new: Both) -> Both:
        end = start + new[0].shape[2]
        for whole, part in zip(self.kept[layer], new):
            whole[:, :, start:end] = part
        keys, values = self.kept[layer]
        return keys[:, :, :end], values[:, :, :end]

    def rewind(self, prompt: int) -> None: ...


class Growing:
    """A rewound one is a copy of the longest's first part."""

    def __init__(self) -> None:
        self.kept: list[Both] = []

    def extend(self, layer: int, start: int, new: Both) -> Both:
        if not start:
            self.kept[layer:] = [new]
            return new
        keys, values = (jt.concat([old, part], 2) for old, part in zip(self.kept[layer], new))
        self.kept[layer] = keys, values
        return keys, values

    def rewind(self, prompt: int) -> None:
        self.kept = [(keys[:, :, :prompt], values[:, :, :prompt]) for keys, values in self.kept]


class Generation:
    """One step gives every token after the prompt, whose loss and cache are there already."""

    def __init__(self, run: JittorAdapter) -> None:
        self.run = run
        self.prompt = run.config.length - run.case.decoded
        self.computed = 0  # tokens of a sequence, in the last step
        self.cache_bytes = 0  # when it had its last token
        self.cache: Cache | None = None
        self.layers: Iterator[int] = cycle(range(run.config.layers))
        self.start = 0
        self.collecting = False  # logits, while somebody asks for them
        self.collected: list[np.ndarray] = []

    def attend(self, q: Var, k: Var, v: Var) -> Var:
        assert self.cache
        keys, values = self.cache.extend(next(self.layers), self.start, (k, v))
        if q.shape[2] > 1:
            found: Var = self.run.model_module.attention(q, keys, values)
            return found
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
        """Else the graphs of all tokens would be there at once."""
        jt.sync([*computed, *(var for both in (self.cache.kept if self.cache else ()) for var in both)])

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
                self.cache_bytes = sum(var.nbytes for both in self.cache.kept for var in both)
                self.cache.rewind(self.prompt)
                self.wait()
            run.output = total / x.numel()

    def logits(self) -> np.ndarray:
        """Of every token, from the prompt read once more and one more step."""
        self.collecting = True
        self.begin()
        self.step()
        self.collecting = False
        return np.concatenate(self.collected, 1).astype(np.float64)

    def evidence(self) -> Evidence:
        c = self.run.config
        return {
            "tokens_decoded": self.run.case.decoded,
            "tokens_computed": self.computed,
            "cache_bytes": self.cache_bytes,
            "cache_bytes_by_formula": 2 * c.layers * c.width * c.length * self.run.case.batch * 4,
        }


def generation(run: JittorAdapter, cached: bool) -> Generation:
    """What is common to all kinds."""
    found = Generation(run)
    if cached:
        run.build_options["attend"] = found.attend
    run.before_first_step.append(found.begin)
    run.whole_step, run.decoded = found.step, found.logits
    return found


def cached(found: Generation, between_steps: int) -> Proof:
    """Each token is computed once, by every block, and the cache is as large as it must be; between two steps it is there for
    so many tokens."""

    def proof(e: Evidence) -> bool:
        e |= found.evidence()
        assert found.cache
        e["tokens_kept_between_steps"] = found.cache.kept[0][0].shape[2]
        once = e["tokens_computed"] == e["tokens_decoded"] == e["forward_passes"]
        whole = e["cache_bytes"] == e["cache_bytes_by_formula"] and e["tokens_kept_between_steps"] == between_steps
        return once and whole and e["block_runs"] == e["blocks"] * e["forward_passes"]

    return proof


@switch
def static_cache(run: JittorAdapter) -> Proof:
    found = generation(run, cached=True)

    def make(_: object) -> None:
        c = run.config
        found.cache = Static(c.layers, (run.case.batch, c.heads, c.length, c.width // c.heads))

    run.on_model.append(make)
    return cached(found, run.config.length)


@switch
def growing_cache(run: JittorAdapter) -> Proof:
    found = generation(run, cached=True)
    found.cache = Growing()
    return cached(found, found.prompt)


@switch
def no_cache(run: JittorAdapter) -> Proof:
    found = generation(run, cached=False)

    def proof(e: Evidence) -> bool:
        e |= found.evidence()
        anew = sum(range(found.prompt + 1, run.config.length + 1))
        return e["tokens_computed"] == anew and e["forward_passes"] == e["tokens_decoded"]

    return proof
