"""The least memory that a case needs, counted by hand: what no implementation of the same mathematics can do without.

Everything derives from `case.config`, so variants and any batch work. Only arithmetic; no framework is asked. Not counted are
workspaces, gradients of activations, weights that autocast copies, statistics of norms, masks of a bit per element, and
whatever a framework keeps for convenience. Of a workload that declares no `layers` no activation is counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from framebench.models.layer import Layer
from framebench.models.spec import STREAM, Param
from framebench.suite.catalog.quantized import moment_bytes

if TYPE_CHECKING:
    from framebench.suite.case import Case

# by which switch what waits in host memory or on disk, of which a limit may put anything there
ACTIVATIONS_ELSEWHERE, STATES_ELSEWHERE = {"offload", "offload_streamed", "mem_limit"}, {"optimizer_offload", "mem_limit"}
WIDE, NARROW = 4, 2  # bytes of float32; of bfloat16 and float16
INTEGER = {"torch": 8, "jax": 4, "jittor": 4}  # bytes of a label or token: the latter two hold them in 32 bits


@dataclass(frozen=True)
class LowerBound:
    """Bytes at the moment of a step when they are most. A step cannot peak below their sum."""

    parameters: int
    buffers: int
    optimizer: int
    inputs: int
    gradients: int
    activations: int

    @property
    def total(self) -> int:
        return self.parameters + self.buffers + self.optimizer + self.inputs + self.gradients + self.activations


def options(case: Case) -> dict[str, Any]:
    """Of the strategy's parts, by the name of the switch."""
    return {part.how: part.options for part in case.parts}


def width(case: Case) -> int:
    """Bytes of an activation. Under automatic mixed precision the least is that all of them are narrow."""
    return NARROW if case.plan.precision in ("bf16", "fp16") else WIDE


def _storage(case: Case) -> int:
    """Bytes of a parameter, its gradient and each of its states: narrow only where the weights themselves are."""
    return width(case) if {"half", "amp_level"} & set(options(case)) else WIDE


def _trained_prefixes(case: Case) -> tuple[str, ...]:
    """How the names of trained layers begin; the empty prefix is all of them."""
    if case.scenario != "finetune":
        return ("",) if case.stage.trains else ()
    assert case.spec.trained
    return case.spec.trained(case.config, options(case)["frozen"].get("part", "half"))


def size(param: Param) -> int:
    return prod(param.shape)


def held(case: Case, trainable: bool) -> int:
    """Bytes of parameters, or of buffers: of the model, the second of a pair, the teacher of a student."""
    what, spec = options(case), case.spec
    models: list[tuple[Any, str | tuple[str, ...]]] = [(case.config, "")]
    if case.plan.mathematics == "distill":
        models.append((spec.config(case.size), ""))
    if case.scenario == "pair" and "in_turn" not in what:
        shared = any(o.get("shared") for o in what.values())
        models.append((case.config, spec.head if shared else ""))
    chosen = (p for config, begins in models for p in spec.params(config) if p.name.startswith(begins))
    return sum(stored(case, p) for p in chosen if p.trainable == trainable)


def stored(case: Case, param: Param) -> int:
    """Bytes of a parameter. A linear layer's in 8 bits needs scales beside them, which are not counted."""
    linear = len(param.shape) == 2 and param.name.startswith("blocks.")
    return size(param) * (1 if linear and "int8" in options(case) else _storage(case))


@cache
def gradient_bytes(case: Case) -> dict[str, int]:
    """By layer: of all trained parameters, as they are when the backward pass ends."""
    bytes_by_layer: dict[str, int] = {}
    for p in trained(case):
        layer = p.name.rpartition(".")[0]
        bytes_by_layer[layer] = bytes_by_layer.get(layer, 0) + _storage(case) * size(p)
    return bytes_by_layer


def trained(case: Case) -> list[Param]:
    return [p for p in case.spec.params(case.config) if p.trainable and p.name.startswith(_trained_prefixes(case))]


def optimizer_bytes(case: Case) -> int:
    """SGD keeps its momentum, AdamW two moments: 4 and 8 bytes per trained parameter; 6 with the first one in bfloat16, little
    more than 2 in 8 bits. Adafactor keeps a number for each row and each column of a matrix."""
    moments = len(case.optimizer.states)
    if any(part.precision == "8-bit moments" for part in case.plan.parts):
        return moments * sum(moment_bytes(size(p)) for p in trained(case))
    kept = _storage(case) * sum(case.optimizer.numbers(p.shape) for p in trained(case))
    return kept - ("mu_bf16" in options(case)) * sum(gradient_bytes(case).values()) // 2


def adjusted_bytes(case: Case) -> int:
    """Of a Transformer's blocks, by Korthikanti et al. 2022, equation 1, without dropout (its masks: 2 s h, and of the scores
    a s^2; its output beside them 2 a s^2) and in float32: every tensor is twice as wide. 2 s b h (32 + 2 a s / h) bytes."""
    c = case.config
    s, b, h, a = c.length, case.batch, c.width, c.heads
    return c.layers * round(2 * s * b * h * (32 + 2 * a * s / h))


def input_bytes(case: Case, targets: bool = True) -> int:
    """Of one batch, or of all, where the scenario or the strategy holds them."""
    integer = INTEGER[case.framework]
    if case.scenario == "varlen":
        return sum(integer * (x.size + y.size) for x, y in stream(case))
    floats, integers, labels = case.spec.sample(case.config)
    batches = STREAM if options(case).get("loading", {}).get("mode") == "whole" else 1
    return batches * case.batch * (_storage(case) * floats + integer * (integers + labels * targets))


def stream(case: Case) -> list[tuple[np.ndarray, np.ndarray]]:
    how = next(part.name for part in case.parts if part.axis == "lengths")
    return case.spec.stream(case.config, case.batch, how)


def layers(case: Case) -> list[Layer]:
    """From the input to the loss, of a stream's longest batch; none where the workload declares none."""
    config = case.config
    if case.scenario == "varlen":
        config = replace(config, length=max(x.shape[1] for x, _ in stream(case)))
    return list(case.spec.layers(config, options(case))) if case.spec.layers else []


def graph(case: Case) -> list[Layer]:
    """The layers that a backward pass goes through: none below the first trained one. A frozen product needs no input."""
    prefixes, all_layers = _trained_prefixes(case) or ("",), layers(case)
    trained = [f"{k.name}.".startswith(prefixes) for k in all_layers]
    first = trained.index(True) if True in trained else len(all_layers)
    return [k if t or not k.output else replace(k, elements=0) for k, t in zip(all_layers[first:], trained[first:])]


def _recomputed(case: Case) -> set[str]:
    """The blocks that run again in the backward pass. Policies that save more, or elsewhere, have the same bound, as has
    a compiler that chooses by itself."""
    blocks = list(dict.fromkeys(k.block for k in layers(case) if k.block))
    every = [part.options.get("every", 1) for part in case.parts if part.axis == "recomputation" or "budget" in part.options]
    return set(blocks[:: every[0]]) if every else set()


def backward(case: Case) -> tuple[int, int]:
    """Bytes of gradients and of what is kept, at the layer of the backward pass where both together are most.

    At a layer there is what this layer and all below it keep, and the gradients of this layer and all above. Of a block that
    is recomputed only the input is kept, until its turn comes. Micro-batches after the first, and a step that zeroes gradients
    instead of freeing them, have all gradients all the time; an optimizer that works in the backward pass, or a compiler that
    updates weights in place, needs those of one layer at a time.
    """
    what, kept, again, gradients = options(case), graph(case), _recomputed(case), gradient_bytes(case)
    per_element = 0 if what.keys() & ACTIVATIONS_ELSEWHERE else width(case) * (case.batch // case.plan.micro_batches)
    always = case.plan.micro_batches > 1 or "keep_grads" in what
    in_place = case.framework == "jax" and "no_donate" not in what
    one_by_one = "optimizer_in_backward" in what or in_place

    layer_gradients = [gradients.get(k.name, 0) for k in kept]
    above = sum(layer_gradients)  # gradients of this layer and of those above it
    stays, turn = 0, dict.fromkeys(again, 0)  # elements up to this layer: kept all along, and of each recomputed block
    layer_bytes = []
    for k, gradient in zip(kept, layer_gradients):
        if k.border or k.block not in again:
            stays += k.elements
        else:
            turn[k.block] += k.elements
        whose = sum(layer_gradients) if always else gradient if one_by_one else above
        layer_bytes.append((whose, per_element * (stays + turn.get(k.block, 0))))
        above -= gradient
    if not layer_bytes:  # nothing is known of activations: the end of the backward pass
        return max(gradients.values()) if one_by_one and not always else sum(gradients.values()), 0
    return max(layer_bytes, key=sum)


def forward(case: Case) -> int:
    """Bytes of the largest pair of a product's input and result, or of all layers where the graph is kept. Of generation the
    keys and values of all tokens, and that of one."""
    elements = [k.elements + k.output for k in layers(case)] or [0]
    if {"static_cache", "growing_cache"} & set(options(case)):
        c = case.config
        return width(case) * case.batch * (2 * c.layers * c.width * c.length + max(elements) // c.length)
    most = sum(k.elements for k in layers(case)) if "grad" in options(case) else max(elements)
    return width(case) * (case.batch // case.plan.micro_batches) * most


@cache
def lower_bound(case: Case) -> LowerBound:
    """The least peak of one step of this case, by what it is made of."""
    gradients, activations = backward(case) if case.stage.trains else (0, forward(case))
    return LowerBound(
        parameters=held(case, trainable=True),
        buffers=held(case, trainable=False),
        optimizer=optimizer_bytes(case) if case.stage.trains and not options(case).keys() & STATES_ELSEWHERE else 0,
        inputs=input_bytes(case, targets=case.scenario != "eval"),
        gradients=gradients,
        activations=activations,
    )
