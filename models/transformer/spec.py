"""Specify a GPT-style decoder (Radford et al. 2019).

It has norms before each part, learned positions, GELU, and the head tied to the embedding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from framebench.models.layer import Layer, Switches
from framebench.models.spec import Optimizer, Param, Preset, Workload


@dataclass(frozen=True)
class TransformerConfig:
    """The size of a decoder and of its sequences."""

    vocabulary: int = 50304  # GPT-2's 50257, rounded up to a multiple of 64
    length: int = 1024  # tokens per sequence
    layers: int = 12
    heads: int = 12
    width: int = 768  # features per token
    rank: int = 0  # of the adapters (LoRA, Hu et al. 2021); with 0 there are none


def make_params(c: TransformerConfig) -> Iterator[Param]:
    """Yield every parameter, with GPT-2's initialisation at its width of 768.

    Weights have a standard deviation of 0.02, divided by sqrt(2 x layers) in residual projections.
    In narrower models it is larger in proportion. Embeddings, queries and keys have larger weights
    than GPT-2's: with those, attention is so flat at the start, and logits depend so little on the
    token, that errors in either would go unseen.
    """
    d = c.width
    std = 0.02 * (768 / d) ** 0.5
    depth = (2 * c.layers) ** -0.5
    yield Param("wte.weight", (c.vocabulary, d), std=2 * std)
    yield Param("wpe.weight", (c.length, d), std=2 * std)
    for i in range(c.layers):
        block = f"blocks.{i}"
        yield from make_norm(f"{block}.ln1", d)
        yield from make_linear(f"{block}.qkv", d, 3 * d, 1.25 * d**-0.5)
        yield from make_linear(f"{block}.proj", d, d, std * depth, 0.1 * depth)
        if c.rank:
            yield from make_adapter(f"{block}.qkv", d, 3 * d, c.rank)
            yield from make_adapter(f"{block}.proj", d, d, c.rank)
        yield from make_norm(f"{block}.ln2", d)
        yield from make_linear(f"{block}.fc1", d, 4 * d, std)
        yield from make_linear(f"{block}.fc2", 4 * d, d, std * depth, 0.1 * depth)
    yield from make_norm("ln_f", d)


def make_norm(name: str, width: int) -> Iterator[Param]:
    """Yield weight and bias of a layer norm."""
    yield Param(f"{name}.weight", (width,), std=0.2, value=1.0)
    yield Param(f"{name}.bias", (width,), std=0.2)


def make_linear(
    name: str, cin: int, cout: int, std: float, bias_std: float = 0.1
) -> Iterator[Param]:
    """Yield weight and bias of a linear layer."""
    yield Param(f"{name}.weight", (cout, cin), std=std)
    yield Param(f"{name}.bias", (cout,), std=bias_std)


def make_adapter(name: str, cin: int, cout: int, rank: int) -> Iterator[Param]:
    """Yield both factors of an adapter.

    The second one is published to start at zero, which would give the first one no gradient.
    """
    yield Param(f"{name}.lora.lora_a", (cin, rank), std=cin**-0.5)
    yield Param(f"{name}.lora.lora_b", (rank, cout), std=0.1)


def make_inputs(
    c: TransformerConfig, batch: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return tokens and next tokens, both (batch, length) int64."""
    tokens = rng.integers(0, c.vocabulary, (batch, c.length + 1))
    return np.ascontiguousarray(tokens[:, :-1]), np.ascontiguousarray(tokens[:, 1:])


def find_undetermined(c: TransformerConfig) -> dict[str, slice]:
    """Return the places of the biases of keys, by the name of the parameter that has them.

    Such a bias adds the same to all scores of a query, and the softmax cancels it.
    """
    keys = slice(c.width, 2 * c.width)
    return {f"blocks.{i}.qkv.bias": keys for i in range(c.layers)}


def list_trained(c: TransformerConfig, part: str) -> tuple[str, ...]:
    """Return the prefixes of the parameters that fine-tuning trains: `half`, `head` or `lora`.

    The head is tied to the embedding, which stays frozen. So above the blocks only the last norm is
    trained.
    """
    if part == "lora":
        adapters = []
        for i in range(c.layers):
            adapters += [f"blocks.{i}.qkv.lora.", f"blocks.{i}.proj.lora."]
        return tuple(adapters)
    if part == "half":
        upper = [f"blocks.{i}." for i in range(c.layers // 2, c.layers)]
        return (*upper, "ln_f.")
    return ("ln_f.",)


def count_parameters(c: TransformerConfig) -> int:
    """Return 12 d^2 + 13 d per layer of width d, plus the two embeddings and the last norm."""
    d = c.width
    return c.layers * (12 * d + 13) * d + (c.vocabulary + c.length + 2) * d


# layers and width of decoders that people train: Radford et al. (2019), Brown et al. (2020, table
# 2.1)
USUAL_SHAPES = (
    (12, 768),
    (24, 1024),
    (36, 1280),
    (24, 1536),
    (48, 1600),
    (24, 2048),
    (32, 2560),
    (32, 4096),
    (40, 5120),
    (96, 12288),
)
MOST_LAYERS = 512
NEAR = 0.1  # the largest distance from the number of parameters that was asked for, as a share


def find_config(
    parameters: float,
    length: int,
    width: int | None = None,
    layers: int | None = None,
    vocabulary: int = TransformerConfig.vocabulary,
) -> TransformerConfig:
    """Return the configuration whose number of parameters comes closest, with heads of 64 features.

    If width and layers are not given, they are those of a usual model, or else the width is 64 for
    each layer. Raises ValueError, naming the number that comes closest, if it is more than a tenth
    away.
    """

    def make_config(shape: tuple[int, int]) -> TransformerConfig:
        depth, features = shape
        return TransformerConfig(vocabulary, length, depth, max(1, features // 64), features)

    def measure_distance(config: TransformerConfig) -> float:
        return abs(math.log(count_parameters(config) / parameters))

    usual = [make_config(shape) for shape in USUAL_SHAPES]
    near = [config for config in usual if measure_distance(config) < math.log(1 + NEAR)]
    numbers = range(1, MOST_LAYERS + 1)
    if width and layers:
        candidates = [make_config((layers, width))]
    elif width:
        candidates = [make_config((number, width)) for number in numbers]
    elif layers:
        candidates = [make_config((layers, 64 * number)) for number in numbers]
    elif near:
        candidates = near
    else:
        candidates = [make_config((number, 64 * number)) for number in numbers]
    best = min(candidates, key=measure_distance)
    if measure_distance(best) > math.log(1 + NEAR):
        raise ValueError(
            f"no such Transformer has {parameters:,.0f} parameters: the closest has "
            f"{count_parameters(best):,}, with {best.layers} layers of width {best.width}, "
            f"{length} tokens and a vocabulary of {vocabulary:,}; change one of these"
        )
    return best


def list_layers(c: TransformerConfig, switches: Switches) -> Iterator[Layer]:
    """Yield what each layer keeps: with s tokens, width h and a heads, 16 s h + a s per sample.

    Korthikanti et al. (2022, section 4.1) count s b h (34 + 5 a s / h) bytes in 16 bits. Without
    dropout its three masks (3 s h bytes, of which 1 s h is attention's) and the scores that dropout
    repeats are gone. These are left, in elements:

    - the inputs of both norms: 2 s h;
    - the inputs of the linear layers: s h of queries, keys and values, s h of the projection,
      s h + 4 s h of the two feed-forward layers;
    - attention: 3 s h;
    - the GELU: 4 s h.

    That is 16 s h, 64 s h bytes in float32. Attention that is fused (Dao et al. 2022) keeps one
    normaliser per head and token, a s, instead of the probabilities, a s^2. Adapters of rank r
    keep r s elements each, and share their input with the layer that they are next to. Above the
    blocks are the last norm, the head (tied to the embedding) and one copy of the logits,
    s x vocabulary.
    """
    stream = c.length * c.width  # s h: the elements that pass from layer to layer
    hidden = 4 * stream  # the elements inside the feed-forward network
    logits = c.length * c.vocabulary
    normalisers = c.heads * c.length
    if "attention_plain" in switches:
        normalisers *= c.length  # the probabilities
    chunks = switches.get("chunked_loss", {}).get("chunks", 1)
    matmuls = 4 * c.length * stream  # operations of scores and weighted sum
    yield Layer("wpe", 0)
    for i in range(c.layers):
        block = f"blocks.{i}"
        yield Layer(f"{block}.ln1", stream, is_block_input=True)
        yield from list_adapted_layers(c, f"{block}.qkv", stream, output=3 * stream)
        yield Layer(f"{block}.attend", 3 * stream + normalisers, flops=matmuls)
        yield from list_adapted_layers(c, f"{block}.proj", stream, output=stream)
        yield Layer(f"{block}.ln2", stream)
        yield Layer(f"{block}.fc1", stream, output=hidden)
        yield Layer(f"{block}.gelu", hidden)
        yield Layer(f"{block}.fc2", hidden, output=stream)
    yield Layer("ln_f", stream)
    yield Layer("wte", stream, output=logits)
    yield Layer("logits", logits // chunks)


def list_adapted_layers(
    c: TransformerConfig, name: str, elements: int, output: int
) -> Iterator[Layer]:
    """Yield a linear layer, and the adapter next to it if there is a rank.

    The adapter needs the input even where the layer is frozen, so the input is counted there.
    """
    if c.rank:
        yield Layer(name, 0, output=output)
        yield Layer(f"{name}.lora", elements + c.length * c.rank, output=output)
    else:
        yield Layer(name, elements, output=output)


def lengthen(c: TransformerConfig) -> TransformerConfig:
    """Return the configuration with sequences of four times the length."""
    return replace(c, length=4 * c.length)


def halve_width(c: TransformerConfig) -> TransformerConfig:
    """Return the configuration with half the features, in half the heads."""
    return replace(c, width=c.width // 2, heads=c.heads // 2)


def shrink_to_student(c: TransformerConfig) -> TransformerConfig:
    """Return the model that is trained by distillation: half the layers."""
    return replace(c, layers=max(1, c.layers // 2))


# GPT-2's four sizes would end at 1.5 B; these are its first two, and one of 1.0 B with heads as
# wide as kernels like them. The variant `long` takes each to four times the length.
FULL_SIZES = {
    "full": Preset(TransformerConfig(), (4, 8, 16, 32), base=8),  # 124 M parameters
    "full-2k": Preset(TransformerConfig(length=2048), (2, 4, 8, 16), base=4),  # 125 M
    "full-350m": Preset(
        TransformerConfig(layers=24, heads=16, width=1024), (2, 4, 8, 16), base=4
    ),  # 355 M
    "full-1b": Preset(
        TransformerConfig(layers=24, heads=14, width=1792), (1, 2, 4, 8), base=2
    ),  # 1.02 B
}

WORKLOAD = Workload(
    name="transformer",
    title="Transformer",
    order=3,
    unit="tokens",
    optimizer=Optimizer("adamw", lr=3e-4, weight_decay=0.1),
    sizes={
        "tiny": Preset(
            TransformerConfig(vocabulary=64, length=16, layers=2, heads=2, width=16),
            (4, 8),
            base=4,
        ),
        "cpu": Preset(
            TransformerConfig(vocabulary=2048, length=256, layers=8, heads=4, width=256),
            (1, 2, 4, 8, 16),
            base=4,
        ),
        **FULL_SIZES,
    },
    without_golden=tuple(FULL_SIZES),
    params=make_params,
    inputs=make_inputs,
    layers=list_layers,
    couples_samples=False,
    has_convolutions=False,
    variants={
        "long": lengthen,
        "width_half": halve_width,
        "lora": partial(replace, rank=4),
        "student": shrink_to_student,
        "depth_4": partial(replace, layers=4),
        "depth_16": partial(replace, layers=16),
    },
    units=lambda c: c.length,
    trained=list_trained,
    undetermined=find_undetermined,
    described=find_config,
    identical_layers=lambda c: c.layers,
)
