"""The least memory that a case needs, counted by hand: what no implementation of the same mathematics can do without.

Everything derives from `case.config`, so variants and any batch work. Only arithmetic; no framework is asked. Not counted are
workspaces, gradients of activations, weights that autocast copies, statistics of norms, masks of a bit per element, and
whatever a framework keeps for convenience.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from framebench.models.resnet50.spec import Config as ResNet
from framebench.models.resnet50.spec import blocks as bottlenecks
from framebench.models.spec import STREAM, Param
from framebench.models.transformer.spec import Config as Transformer
from framebench.models.unet3d.spec import Config as UNet
from framebench.suite.catalog.quantized import moment_bytes

if TYPE_CHECKING:
    from framebench.suite.case import Case

# by which switch what waits in host memory or on disk, of which a limit may put anything there
ACTIVATIONS_ELSEWHERE, STATES_ELSEWHERE = {"offload", "offload_streamed", "mem_limit"}, {"optimizer_offload", "mem_limit"}
WIDE, NARROW = 4, 2  # bytes of float32; of bfloat16 and float16
INTEGER = {"torch": 8, "jax": 4, "jittor": 4}  # bytes of a label or token: the latter two hold them in 32 bits


@dataclass(frozen=True)
class Kept:
    """What one layer needs again in the backward pass: `elements` per sample. Owns the weights whose names begin so."""

    name: str
    elements: int
    output: int = 0  # of a product: elements of its result, which exists together with its input
    border: bool = False  # the input of a block: checkpointing keeps it

    @cached_property
    def block(self) -> str:
        """`layer1.0` of `layer1.0.conv1`; empty outside the blocks that checkpointing recomputes."""
        head, _, tail = self.name.partition(".")
        index, _, rest = tail.partition(".")
        return f"{head}.{index}" if rest else ""


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


def of_transformer(c: Transformer, scores: bool = False, chunks: int = 1) -> Iterator[Kept]:
    """With s tokens, width h and a heads, 16 s h + a s elements per layer and sample.

    Korthikanti et al. (2022, section 4.1) count s b h (34 + 5 a s / h) bytes in 16 bits. Without dropout its three masks (3 s h
    bytes less, of which 1 s h is attention's) and the scores that dropout repeats are gone. What is left, in elements: the
    inputs of both norms 2 s h; of the products of queries, keys and values s h, of the projection s h, of the two
    feed-forward layers s h + 4 s h; of attention 3 s h; of the GELU 4 s h: 16 s h, 64 s h bytes in float32. Attention that is
    fused (Dao et al. 2022) keeps one normaliser per head and token, a s, instead of the probabilities, a s^2 (`scores`).
    Adapters of rank r keep r s elements each, and share their input with the layer that they are beside.
    Above the layers: the last norm, the head (tied to the embedding) and one copy of the logits, s x vocabulary.
    """
    s, h = c.length, c.width
    yield Kept("wpe", 0)
    for i in range(c.layers):
        b = f"blocks.{i}"
        yield Kept(f"{b}.ln1", s * h, border=True)
        yield from adapted(f"{b}.qkv", s, c.rank, Kept(f"{b}.qkv", s * h, output=3 * s * h))
        yield Kept(f"{b}.attend", 3 * s * h + c.heads * s * (s if scores else 1))
        yield from adapted(f"{b}.proj", s, c.rank, Kept(f"{b}.proj", s * h, output=s * h))
        yield Kept(f"{b}.ln2", s * h)
        yield Kept(f"{b}.fc1", s * h, output=4 * s * h)
        yield Kept(f"{b}.gelu", 4 * s * h)
        yield Kept(f"{b}.fc2", 4 * s * h, output=s * h)
    yield Kept("ln_f", s * h)
    yield Kept("wte", s * h, output=s * c.vocabulary)
    yield Kept("logits", s * c.vocabulary // chunks)


def adapted(name: str, tokens: int, rank: int, plain: Kept) -> Iterator[Kept]:
    """A linear layer, and the adapter beside it, which needs the input even where the layer is frozen."""
    yield replace(plain, elements=0) if rank else plain
    if rank:
        yield Kept(f"{name}.lora", plain.elements + tokens * rank, output=plain.output)


def of_resnet50(c: ResNet) -> Iterator[Kept]:
    """The input of every convolution and of every batch norm.

    A batch norm's input is a convolution's output, and the next convolution's input is that after norm and ReLU, which may work
    in place: two tensors per convolution. A shortcut's convolution shares its input with the block's first. Left out: the
    image (counted among the inputs), the ReLU before the pooling and that of the last block, which both follow from a norm's
    input, and the pooling's indices.
    """
    edge = ceil(c.image / 2)
    yield Kept("conv1", 0, output=c.width * edge**2)
    yield Kept("bn1", c.width * edge**2)
    edge = ceil(edge / 2)
    for name, cin, inner, stride in bottlenecks(c):
        small, cout = ceil(edge / stride), inner * c.expansion
        yield Kept(f"{name}.conv1", cin * edge**2, output=inner * edge**2, border=True)
        yield Kept(f"{name}.bn1", inner * edge**2)
        yield Kept(f"{name}.conv2", inner * edge**2, output=inner * small**2)
        yield Kept(f"{name}.bn2", inner * small**2)
        yield Kept(f"{name}.conv3", inner * small**2, output=cout * small**2)
        yield Kept(f"{name}.bn3", cout * small**2)
        if stride != 1 or cin != cout:
            yield Kept(f"{name}.downsample.0", 0)
            yield Kept(f"{name}.downsample.1", cout * small**2)
        edge = small
    features = c.width * 2 ** (len(c.depths) - 1) * c.expansion
    yield Kept("fc", features, output=c.classes)
    yield Kept("logits", c.classes)


def of_unet3d(c: UNet) -> Iterator[Kept]:
    """The input of every convolution and of every instance norm, as in `of_resnet50`; ReLU may work in place.

    A skip connection keeps nothing of its own on the way down, where the next level's convolution has the same input; on the
    way up the convolution's input is the concatenation of the upsampled tensor and the skip. One copy of the logits.
    """
    edge = c.patch
    for i, (cin, cout) in enumerate(zip((c.channels, *c.filters), c.filters)):
        first = 0 if i == 0 else cin * edge**3  # the volume itself is counted among the inputs
        edge = edge if i == 0 else ceil(edge / 2)
        yield from unet_units(f"down.{i}", first, cout * edge**3, border=True)
    for i, (cin, cout) in enumerate(zip(c.filters[::-1], c.filters[-2::-1])):
        yield Kept(f"up.{i}.upsample", cin * edge**3, output=cout * (2 * edge) ** 3, border=True)
        edge *= 2
        yield from unet_units(f"up.{i}", 2 * cout * edge**3, cout * edge**3, border=False)
    yield Kept("head", c.filters[0] * edge**3, output=c.classes * edge**3)
    yield Kept("logits", c.classes * edge**3)


def unet_units(name: str, first: int, result: int, border: bool) -> Iterator[Kept]:
    yield Kept(f"{name}.unit1.conv", first, output=result, border=border)
    yield Kept(f"{name}.unit1.norm", result)
    yield Kept(f"{name}.unit2.conv", result, output=result)
    yield Kept(f"{name}.unit2.norm", result)


LAYERS: dict[str, Callable[..., Iterator[Kept]]] = {
    "transformer": of_transformer,
    "resnet50": of_resnet50,
    "unet3d": of_unet3d,
}
# what one sample is made of: (numbers of the input, integers of the input, integers of the target)
SAMPLE: dict[str, Callable[[Any], tuple[int, int, int]]] = {
    "transformer": lambda c: (0, c.length, c.length),
    "resnet50": lambda c: (3 * c.image**2, 0, 1),
    "unet3d": lambda c: (c.channels * c.patch**3, 0, c.patch**3),
}


def options(case: Case) -> dict[str, Any]:
    """Of the strategy's parts, by the name of the switch."""
    return {part.how: part.options for part in case.parts}


def width(case: Case) -> int:
    """Bytes of an activation. Under automatic mixed precision the least is that all of them are narrow."""
    return NARROW if case.plan.precision in ("bf16", "fp16") else WIDE


def storage(case: Case) -> int:
    """Bytes of a parameter, its gradient and each of its states: narrow only where the weights themselves are."""
    return width(case) if {"half", "amp_level"} & set(options(case)) else WIDE


def trained_prefixes(case: Case) -> tuple[str, ...]:
    """How the names of trained layers begin; the empty prefix is all of them."""
    if case.scenario != "finetune":
        return ("",) if case.stage.trains else ()
    return case.spec.trained(case.config, options(case)["frozen"].get("part", "half"))


def size(param: Param) -> int:
    return prod(param.shape)


def held(case: Case, trainable: bool) -> int:
    """Bytes of parameters, or of buffers: of the model, the second of a pair, the teacher of a student."""
    what, spec = options(case), case.spec
    found: list[tuple[Any, str | tuple[str, ...]]] = [(case.config, "")]
    if case.plan.mathematics == "distill":
        found.append((spec.config(case.size), ""))
    if case.scenario == "pair" and "in_turn" not in what:
        shared = any(o.get("shared") for o in what.values())
        found.append((case.config, spec.head if shared else ""))
    chosen = (p for config, begins in found for p in spec.params(config) if p.name.startswith(begins))
    return sum(stored(case, p) for p in chosen if p.trainable == trainable)


def stored(case: Case, param: Param) -> int:
    """Bytes of a parameter. A linear layer's in 8 bits needs scales beside them, which are not counted."""
    linear = len(param.shape) == 2 and param.name.startswith("blocks.")
    return size(param) * (1 if linear and "int8" in options(case) else storage(case))


@cache
def gradient_bytes(case: Case) -> dict[str, int]:
    """By layer: of all trained parameters, as they are when the backward pass ends."""
    found: dict[str, int] = {}
    for p in trained(case):
        layer = p.name.rpartition(".")[0]
        found[layer] = found.get(layer, 0) + storage(case) * size(p)
    return found


def trained(case: Case) -> list[Param]:
    return [p for p in case.spec.params(case.config) if p.trainable and p.name.startswith(trained_prefixes(case))]


def optimizer_bytes(case: Case) -> int:
    """SGD keeps its momentum, AdamW two moments: 4 and 8 bytes per trained parameter; 6 with the first one in bfloat16, little
    more than 2 in 8 bits. Adafactor keeps a number for each row and each column of a matrix."""
    moments = len(case.optimizer.states)
    if any(part.precision == "8-bit moments" for part in case.plan.parts):
        return moments * sum(moment_bytes(size(p)) for p in trained(case))
    kept = storage(case) * sum(case.optimizer.numbers(p.shape) for p in trained(case))
    return kept - ("mu_bf16" in options(case)) * sum(gradient_bytes(case).values()) // 2


def mixed_precision_adam(parameters: int) -> int:
    """16 bytes per parameter: the model states of Adam in mixed precision (Rajbhandari et al. 2020, ZeRO, section 3.1).

    Parameters and gradients in 16 bits, 2 + 2; a copy of the parameters, momentum and variance in float32, 4 + 4 + 4. With
    autocast, as in the cases here, parameters and gradients stay in float32, 4 + 4, beside the two moments, 4 + 4: also 16.
    """
    return (2 + 2 + 4 + 4 + 4) * parameters


def input_bytes(case: Case, targets: bool = True) -> int:
    """Of one batch, or of all, where the scenario or the strategy holds them."""
    integer = INTEGER[case.framework]
    if case.scenario == "varlen":
        return sum(integer * (x.size + y.size) for x, y in stream(case))
    floats, integers, labels = SAMPLE[case.workload](case.config)
    batches = STREAM if options(case).get("loading", {}).get("mode") == "whole" else 1
    return batches * case.batch * (storage(case) * floats + integer * (integers + labels * targets))


def stream(case: Case) -> list[tuple[np.ndarray, np.ndarray]]:
    how = next(part.name for part in case.parts if part.axis == "lengths")
    return case.spec.stream(case.config, case.batch, how)


def layers(case: Case) -> list[Kept]:
    """From the input to the loss; of a stream's longest batch."""
    config = case.config
    if case.scenario == "varlen":
        config = replace(config, length=max(x.shape[1] for x, _ in stream(case)))
    what = options(case)
    if not {"attention_plain", "chunked_loss"}.isdisjoint(what):
        return list(of_transformer(config, "attention_plain" in what, what.get("chunked_loss", {}).get("chunks", 1)))
    return list(LAYERS[case.workload](config))


def graph(case: Case) -> list[Kept]:
    """The layers that a backward pass goes through: none below the first trained one. A frozen product needs no input."""
    prefixes, found = trained_prefixes(case) or ("",), layers(case)
    trained = [f"{k.name}.".startswith(prefixes) for k in found]
    first = trained.index(True)
    return [k if t or not k.output else replace(k, elements=0) for k, t in zip(found[first:], trained[first:])]


def recomputed(case: Case) -> set[str]:
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
    what, kept, again, gradients = options(case), graph(case), recomputed(case), gradient_bytes(case)
    per_element = 0 if what.keys() & ACTIVATIONS_ELSEWHERE else width(case) * (case.batch // case.plan.micro_batches)
    always = case.plan.micro_batches > 1 or "keep_grads" in what
    in_place = case.framework == "jax" and "no_donate" not in what
    one_by_one = "optimizer_in_backward" in what or in_place

    own = [gradients.get(k.name, 0) for k in kept]
    above = sum(own)  # gradients of this layer and of those above it
    stays, turn = 0, dict.fromkeys(again, 0)  # elements up to this layer: kept all along, and of each recomputed block
    found = []
    for k, gradient in zip(kept, own):
        if k.border or k.block not in again:
            stays += k.elements
        else:
            turn[k.block] += k.elements
        whose = sum(own) if always else gradient if one_by_one else above
        found.append((whose, per_element * (stays + turn.get(k.block, 0))))
        above -= gradient
    return max(found, key=sum)


def forward(case: Case) -> int:
    """Bytes of the largest pair of a product's input and result, or of all layers where the graph is kept. Of generation the
    keys and values of all tokens, and that of one."""
    elements = [k.elements + k.output for k in layers(case)]
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
