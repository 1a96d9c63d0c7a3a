"""A GPT-style decoder (Radford et al. 2019): pre-norm, learned positions, GELU, the head tied to the embedding."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from framebench.models.layer import Layer, Switches
from framebench.models.spec import Optimizer, Param, Preset, Workload


@dataclass(frozen=True)
class Config:
    vocabulary: int = 50304  # GPT-2's 50257, rounded up to a multiple of 64
    length: int = 1024  # tokens per sequence
    layers: int = 12
    heads: int = 12
    width: int = 768  # features per token
    rank: int = 0  # of the adapters beside the attention's linear layers (LoRA, Hu et al. 2021); 0: there are none


def params(c: Config) -> Iterator[Param]:
    """GPT-2's initialisation at its width of 768: 0.02, residual projections scaled down by sqrt(2 x layers).

    Narrower models get wider weights in proportion. Embeddings, queries and keys are wider than GPT-2's, whose attention is at
    its start so flat, and whose logits depend so little on the token, that errors in either would go unseen.
    """
    d = c.width
    std = 0.02 * (768 / d) ** 0.5
    depth = (2 * c.layers) ** -0.5
    yield Param("wte.weight", (c.vocabulary, d), std=2 * std)
    yield Param("wpe.weight", (c.length, d), std=2 * std)
    for i in range(c.layers):
        b = f"blocks.{i}"
        yield from norm(f"{b}.ln1", d)
        yield from linear(f"{b}.qkv", d, 3 * d, 1.25 * d**-0.5)
        yield from linear(f"{b}.proj", d, d, std * depth, 0.1 * depth)
        if c.rank:
            yield from adapter(f"{b}.qkv", d, 3 * d, c.rank)
            yield from adapter(f"{b}.proj", d, d, c.rank)
        yield from norm(f"{b}.ln2", d)
        yield from linear(f"{b}.fc1", d, 4 * d, std)
        yield from linear(f"{b}.fc2", 4 * d, d, std * depth, 0.1 * depth)
    yield from norm("ln_f", d)


def norm(name: str, d: int) -> Iterator[Param]:
    yield Param(f"{name}.weight", (d,), std=0.2, value=1.0)
    yield Param(f"{name}.bias", (d,), std=0.2)


def linear(name: str, cin: int, cout: int, std: float, shift: float = 0.1) -> Iterator[Param]:
    yield Param(f"{name}.weight", (cout, cin), std=std)
    yield Param(f"{name}.bias", (cout,), std=shift)


def adapter(name: str, cin: int, cout: int, rank: int) -> Iterator[Param]:
    """The published start of the second factor, zero, would give the first one no gradient."""
    yield Param(f"{name}.lora.lora_a", (cin, rank), std=cin**-0.5)
    yield Param(f"{name}.lora.lora_b", (rank, cout), std=0.1)


def inputs(c: Config, batch: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Tokens and next tokens, both (batch, length) int64."""
    tokens = rng.integers(0, c.vocabulary, (batch, c.length + 1))
    return np.ascontiguousarray(tokens[:, :-1]), np.ascontiguousarray(tokens[:, 1:])


def undetermined(c: Config) -> dict[str, slice]:
    """The biases of keys: they add to all scores of a query alike, which the softmax takes away."""
    return {f"blocks.{i}.qkv.bias": slice(c.width, 2 * c.width) for i in range(c.layers)}


def narrow(c: Config) -> Config:
    return replace(c, width=c.width // 2, heads=c.heads // 2)


def trained(c: Config, part: str) -> tuple[str, ...]:
    """The head is tied to the embedding, which stays frozen: above the blocks there is the last norm alone."""
    if part == "lora":
        return tuple(f"blocks.{i}.{layer}.lora." for i in range(c.layers) for layer in ("qkv", "proj"))
    upper = tuple(f"blocks.{i}." for i in range(c.layers // 2, c.layers))
    return (*upper, "ln_f.") if part == "half" else ("ln_f.",)


def count(c: Config) -> int:
    """Parameters: 12 d^2 + 13 d per layer of width d, the two embeddings, and the last norm."""
    d = c.width
    return c.layers * (12 * d + 13) * d + (c.vocabulary + c.length + 2) * d


# layers and width of decoders that people train: Radford et al. (2019), Brown et al. (2020, table 2.1)
USUAL = (
    (12, 768), (24, 1024), (36, 1280), (24, 1536), (48, 1600), (24, 2048), (32, 2560), (32, 4096), (40, 5120), (96, 12288),
)  # fmt: skip
NEAR = 0.1  # of the parameters that were asked for


def described(
    parameters: float, length: int, width: int | None = None, layers: int | None = None, vocabulary: int = 50304
) -> Config:
    """The configuration whose number of parameters comes closest, with heads of 64 features.

    Where neither width nor layers are given, those of a usual model, or else a width of 64 for each layer. Raises ValueError,
    naming the number that comes closest, if it is more than a tenth away.
    """

    def of(shape: tuple[int, int]) -> Config:
        return Config(vocabulary, length, shape[0], max(1, shape[1] // 64), shape[1])

    def off(c: Config) -> float:
        return abs(math.log(count(c) / parameters))

    if width and layers:
        shapes = [(layers, width)]
    elif width or layers:
        shapes = [(n, width) for n in range(1, 513)] if width else [(layers or 1, 64 * n) for n in range(1, 513)]
    else:
        usual = [shape for shape in USUAL if off(of(shape)) < math.log(1 + NEAR)]
        shapes = usual or [(n, 64 * n) for n in range(1, 513)]
    best = min(map(of, shapes), key=off)
    if off(best) > math.log(1 + NEAR):
        raise ValueError(
            f"no such Transformer has {parameters:,.0f} parameters: the closest has {count(best):,}, with {best.layers} layers "
            f"of width {best.width}, {length} tokens and a vocabulary of {vocabulary:,}; change one of these"
        )
    return best


def layers(c: Config, switches: Switches) -> Iterator[Layer]:
    """With s tokens, width h and a heads, 16 s h + a s elements per layer and sample.

    Korthikanti et al. (2022, section 4.1) count s b h (34 + 5 a s / h) bytes in 16 bits. Without dropout its three masks (3 s h
    bytes less, of which 1 s h is attention's) and the scores that dropout repeats are gone. What is left, in elements: the
    inputs of both norms 2 s h; of the products of queries, keys and values s h, of the projection s h, of the two
    feed-forward layers s h + 4 s h; of attention 3 s h; of the GELU 4 s h: 16 s h, 64 s h bytes in float32. Attention that is
    fused (Dao et al. 2022) keeps one normaliser per head and token, a s, instead of the probabilities, a s^2.
    Adapters of rank r keep r s elements each, and share their input with the layer that they are beside.
    Above the layers: the last norm, the head (tied to the embedding) and one copy of the logits, s x vocabulary.
    """
    s, h = c.length, c.width
    normalisers = s if "attention_plain" in switches else 1
    chunks = switches.get("chunked_loss", {}).get("chunks", 1)
    yield Layer("wpe", 0)
    for i in range(c.layers):
        b = f"blocks.{i}"
        yield Layer(f"{b}.ln1", s * h, border=True)
        yield from adapted(f"{b}.qkv", s, c.rank, Layer(f"{b}.qkv", s * h, output=3 * s * h))
        yield Layer(f"{b}.attend", 3 * s * h + c.heads * s * normalisers, flops=4 * s * s * h)  # scores, weighted sum
        yield from adapted(f"{b}.proj", s, c.rank, Layer(f"{b}.proj", s * h, output=s * h))
        yield Layer(f"{b}.ln2", s * h)
        yield Layer(f"{b}.fc1", s * h, output=4 * s * h)
        yield Layer(f"{b}.gelu", 4 * s * h)
        yield Layer(f"{b}.fc2", 4 * s * h, output=s * h)
    yield Layer("ln_f", s * h)
    yield Layer("wte", s * h, output=s * c.vocabulary)
    yield Layer("logits", s * c.vocabulary // chunks)


def adapted(name: str, tokens: int, rank: int, plain: Layer) -> Iterator[Layer]:
    """A linear layer, and the adapter beside it, which needs the input even where the layer is frozen."""
    yield replace(plain, elements=0) if rank else plain
    if rank:
        yield Layer(f"{name}.lora", plain.elements + tokens * rank, output=plain.output)


# GPT-2's four sizes would end at 1.5 B; these are its first two, and one of 1.0 B with heads as wide as kernels like them. The
# variant `long` takes each to four times the length.
FULL = {
    "full": Preset(Config(), (4, 8, 16, 32), base=8),  # 124 M parameters
    "full-2k": Preset(Config(length=2048), (2, 4, 8, 16), base=4),  # 125 M
    "full-350m": Preset(Config(layers=24, heads=16, width=1024), (2, 4, 8, 16), base=4),  # 355 M
    "full-1b": Preset(Config(layers=24, heads=14, width=1792), (1, 2, 4, 8), base=2),  # 1.02 B
}

WORKLOAD = Workload(
    name="transformer",
    title="Transformer",
    order=3,
    unit="tokens",
    optimizer=Optimizer("adamw", lr=3e-4, weight_decay=0.1),
    sizes={
        "tiny": Preset(Config(vocabulary=64, length=16, layers=2, heads=2, width=16), (4, 8), base=4),
        "cpu": Preset(Config(vocabulary=2048, length=256, layers=8, heads=4, width=256), (1, 2, 4, 8, 16), base=4),
        **FULL,
    },
    without_golden=tuple(FULL),
    params=params,
    inputs=inputs,
    layers=layers,
    couples_samples=False,
    variants={
        "long": lambda c: replace(c, length=4 * c.length),
        "width_half": narrow,
        "lora": lambda c: replace(c, rank=4),
        "student": lambda c: replace(c, layers=max(1, c.layers // 2)),
        "depth_4": lambda c: replace(c, layers=4),
        "depth_16": lambda c: replace(c, layers=16),
    },
    units=lambda c: c.length,
    trained=trained,
    undetermined=undetermined,
    described=described,
    identical_layers=lambda c: c.layers,
)
