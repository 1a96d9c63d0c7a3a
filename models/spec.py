"""What a workload declares, where workloads are found, and the canonical weights every framework starts from.

A workload is any folder with a `spec.py`, here or in the folder that $FRAMEBENCH_MODELS names.

No framework's own initialiser or random generator is used anywhere: weights and inputs are made here, in NumPy, from a seed
and the parameter's name. So the loss of step 0 must agree between frameworks to rounding.
"""

from __future__ import annotations

import gzip
import importlib
import json
import math
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from framebench import models
from framebench.models.layer import Layer, Switches

FURTHER = "FRAMEBENCH_MODELS"  # the variable that names a folder with workloads of the user's; workers inherit it
FILES = {"torch": "torch_model.py", "jax": "flax_model.py", "jittor": "jittor_model.py"}
OWN = "own"  # a model of the user's own: user_model.py
SEED = 2024
STREAM = 8  # batches in a stream of sequences or of images
# The biases of norms before a ReLU are around SHIFT times the norm's scale, and a share OFF of them around its negative: most
# channels are on, some off, and few values lie near zero. There rounding decides whether a ReLU lets a gradient through, and
# what is let through here and not there is far more than rounding: with biases about zero it was a thousandth of a gradient in
# float32, and half of it in bfloat16.
SHIFT, OFF = 2.0, 0.15


class UnknownName(ValueError):
    """A workload, size or batch that is not declared; the message lists those that are."""


class BadWorkload(UnknownName):
    """A workload's folder that cannot be used; the message says which and why."""


@dataclass(frozen=True)
class Param:
    """One named tensor of the model, in PyTorch's name and memory layout.

    Normally distributed around `value`, a share of them (`negated`) around its negative; `positive` ones are log-normal. No
    tensor is constant, and none is zero: what a model leaves out or mixes up would not be seen. Buffers (the running statistics
    of batch norm) are not `trainable`.
    """

    name: str
    shape: tuple[int, ...]
    std: float
    value: float = 0.0
    trainable: bool = True
    positive: bool = False
    negated: float = 0.0

    def make(self) -> np.ndarray:
        """The canonical float32 array; independent of the order in which parameters are made."""
        rng = np.random.default_rng([SEED, zlib.crc32(self.name.encode())])
        spread = rng.standard_normal(self.shape, np.float32) * np.float32(self.std)
        if self.positive:
            return np.float32(self.value) * np.exp(spread)
        if not self.negated:
            return np.float32(self.value) + spread
        return np.where(rng.random(self.shape) < self.negated, -self.value, self.value).astype(np.float32) + spread

    @property
    def norm(self) -> float:
        """About the canonical array's Euclidean norm."""
        return float(math.prod(self.shape) * (self.value**2 + self.std**2)) ** 0.5


@dataclass(frozen=True)
class Optimizer:
    """SGD with momentum, AdamW (Loshchilov & Hutter 2019), in the textbook form that all three frameworks share, or Adafactor
    (Shazeer & Stern 2018) without a first moment, as PyTorch and optax have it."""

    name: str  # "sgd" | "adamw" | "adafactor"; "own" where a user's file makes it
    lr: float  # adafactor: of the weight's own size
    momentum: float = 0.9  # sgd
    betas: tuple[float, float] = (0.9, 0.95)  # adamw
    eps: float = 1e-8  # adamw, adafactor: of gradients
    weight_decay: float = 0.0

    @property
    def states(self) -> tuple[str, ...]:
        """What it keeps, as large as each weight; empty where nothing is known of it."""
        kept = {"sgd": ("momentum",), "adamw": ("first moment", "second moment"), "adafactor": ("second moment",)}
        return kept.get(self.name, ())

    def numbers(self, shape: tuple[int, ...]) -> int:
        """How many it keeps for a weight of this shape. Of a matrix's second moment Adafactor has the means over rows and over
        columns."""
        if self.name == "adafactor" and len(shape) > 1:
            return math.prod(shape) // shape[-1] + math.prod(shape) // shape[-2]
        return len(self.states) * math.prod(shape)


@dataclass(frozen=True)
class Preset:
    """A size: the model's configuration, the batches that have golden values, and the one that comparisons are made at."""

    config: Any
    batches: tuple[int, ...]
    base: int


@dataclass(frozen=True)
class Workload:
    """Everything that the harness needs to know about a workload without importing a framework."""

    name: str
    unit: str  # of throughput: "samples" or "tokens"
    optimizer: Optimizer
    sizes: Mapping[str, Preset]
    params: Callable[[Any], Iterator[Param]]
    inputs: Callable[[Any, int, np.random.Generator], tuple[np.ndarray, np.ndarray]]
    couples_samples: bool  # batch norm: micro-batches then change the mathematics
    title: str = ""  # in sentences and on pages; by default the name
    order: int = 100  # of tables; those of the same order come by name
    benchmark: str = ""  # how the names of asv's classes begin, to which published histories refer; by default the name
    # from the input to the loss; without it lower bounds leave activations out, and a step's operations are not counted
    layers: Callable[[Any, Switches], Iterator[Layer]] | None = None
    variants: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)  # name -> the configuration changed
    units: Callable[[Any], int] = lambda config: 1  # throughput counts so many units per sample (tokens of a sequence)
    # prefixes of what fine-tuning trains: half | head | lora; without it there is no fine-tuning
    trained: Callable[[Any, str], tuple[str, ...]] | None = None
    head: tuple[str, ...] = ()  # prefixes of the last layer's parameters
    # parts of tensors on which the loss does not depend: their gradient is rounding, which Adam makes as large as any other
    undetermined: Callable[[Any], Mapping[str, slice]] = lambda config: {}
    normalised: Callable[[Any, int], Mapping[str, int]] = lambda config, batch: {}  # running variance -> values per channel
    raw_images: Callable[[Any, int, np.random.Generator], tuple[np.ndarray, np.ndarray]] | None = None  # of `pipeline`
    prepare: Callable[[np.ndarray], np.ndarray] | None = None  # raw images -> what the model takes
    described: Callable[..., Any] | None = None  # the configuration with so many parameters, where a number says enough
    identical_layers: Callable[[Any], int] = lambda config: 1  # how many a program can run as a loop over one
    without_golden: tuple[str, ...] = ()  # sizes too large for float64 references
    rewrites: Mapping[str, str] = field(default_factory=dict)  # framework -> which slow path is written differently

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", self.title or self.name)
        object.__setattr__(self, "benchmark", self.benchmark or self.name.title().replace("_", ""))

    def preset(self, size: str) -> Preset:
        """Raises UnknownName, with the valid sizes."""
        if size not in self.sizes:
            raise UnknownName(f"{self.name} has no size {size!r}; sizes: {', '.join(self.sizes)}")
        return self.sizes[size]

    def config(self, size: str, variant: str = "") -> Any:
        """The configuration of a size, or a variant of it. Raises UnknownName."""
        if variant and variant not in self.variants:
            raise UnknownName(f"{self.name} has no variant {variant!r}; variants: {', '.join(self.variants)}")
        plain = self.preset(size).config
        return self.variants[variant](plain) if variant else plain

    def weights(self, config: Any) -> dict[str, np.ndarray]:
        """Canonical float32 weights and buffers by name."""
        return {p.name: p.make() for p in self.params(config)}

    def parameter_count(self, config: Any) -> int:
        return sum(int(np.prod(p.shape)) for p in self.params(config) if p.trainable)

    @cached_property
    def _samples(self) -> dict[str, tuple[int, int, int]]:
        return {}

    def sample(self, config: Any) -> tuple[int, int, int]:
        """What one sample is made of: numbers of the input, integers of the input, integers of the target."""
        if (key := repr(config)) not in self._samples:  # a volume of the largest size takes a while to draw
            x, y = self.batch(config, 1)
            numbers = x.size if np.issubdtype(x.dtype, np.floating) else 0
            self._samples[key] = numbers, x.size - numbers, y.size
        return self._samples[key]

    def other_weights(self, config: Any) -> dict[str, np.ndarray]:
        """The second model of a pair: the same trunk, the last layer's weights negated."""
        return {k: -w if k.startswith(self.head) else w for k, w in self.weights(config).items()}

    def batch(self, config: Any, batch: int) -> tuple[np.ndarray, np.ndarray]:
        """Canonical inputs and targets: NCHW / NCDHW float32 images with int64 labels, or int64 tokens and targets."""
        rng = np.random.default_rng([SEED, zlib.crc32(self.name.encode()), batch])
        return self.inputs(config, batch, rng)

    @property
    def incomparable(self) -> tuple[str, ...]:
        """Tensors that nothing is said of, as their gradient is nothing but rounding."""
        return ()

    def may_draw(self) -> bool:
        """Whether a step may draw random numbers."""
        return False

    def draws_otherwise(self, plan: Any) -> bool:
        """Whether a step draws random numbers, and this strategy others than the baseline. The suite's models draw none."""
        return False

    def refuses(self, plan: Any) -> str | None:
        """Why a strategy (a `framebench.strategies.strategy.Strategy`) does not apply to this workload, if it does not."""
        return None

    def knows(self, plan: Any) -> bool:
        """Whether a strategy may be measured of this workload in a case of any batch and size."""
        return False

    def input_shape(self, size: str, batch: int) -> tuple[int, ...]:
        return self.batch(self.config(size), batch)[0].shape

    def lengths(self, config: Any, batch: int) -> np.ndarray:
        """`varlen`: the true lengths (STREAM, batch) of a stream of batches; log-normal, most of them short, as texts are."""
        rng = np.random.default_rng([SEED, 1, batch])
        drawn = np.exp(rng.normal(np.log(config.length / 3), 0.6, (STREAM, batch)))
        return np.clip(drawn, 2, config.length).astype(int)

    def stream(self, config: Any, batch: int, how: str) -> list[tuple[np.ndarray, np.ndarray]]:
        """`varlen`: (tokens, targets) of each batch, (batch, padded length) int64; padding has token 0 and target -1.

        The same sequences, in all: `padded` to the longest possible length, `bucketed` (sorted by length, so that similar ones
        are together, and padded to the next quarter of it) or `raw` (padded to the batch's own longest). Raises ValueError.
        """
        lengths = self.lengths(config, batch)
        tokens, targets = zip(*(self.batch(config, batch) for _ in lengths))
        flat = np.concatenate(tokens), np.concatenate(targets), lengths.ravel()
        if how == "bucketed":
            order = np.argsort(flat[2], kind="stable")
            flat = flat[0][order], flat[1][order], flat[2][order]
        quarter = max(1, config.length // 4)
        batches = []
        for i in range(0, len(flat[0]), batch):
            x, y, length = (part[i : i + batch] for part in flat)
            longest = {"padded": config.length, "bucketed": -(-length.max() // quarter) * quarter, "raw": length.max()}
            if how not in longest:
                raise ValueError(f"no way {how!r} to batch sequences; choose from: {', '.join(longest)}")
            real = np.arange(config.length) < length[:, None]
            cut = slice(None), slice(0, int(longest[how]))
            batches.append((np.where(real, x, 0)[cut].copy(), np.where(real, y, -1)[cut].copy()))
        return batches

    @cached_property
    def references(self) -> dict[str, Any]:
        """golden.json; empty where no reference values were made yet."""
        path = self.folder / "golden.json"
        return json.loads(path.read_text()) if path.exists() else {}

    @property
    def golden(self) -> dict[str, dict[str, float]]:
        """Reference values by a case's `golden_key`."""
        return self.references.get("values", {})

    @property
    def unconfirmed(self) -> str | None:
        """Whose reference values they are, where no second framework has confirmed them."""
        alone = self.references.get("confirmed_by", "") is None
        return f"{self.references['made_by']}, confirmed by no other framework" if alone else None

    @cached_property
    def golden_tensors(self) -> dict[str, dict[str, dict[str, tuple[float, ...]]]]:
        """Reference summaries by key, kind and tensor: norm, and projections."""
        path = self.folder / "tensors.json.gz"
        return json.loads(gzip.decompress(path.read_bytes())) if path.exists() else {}

    @property
    def folder(self) -> Path:
        return folders()[self.name]

    @property
    def referenced(self) -> tuple[str, ...]:
        """The sizes that have float64 references."""
        return tuple(size for size in self.sizes if size not in self.without_golden)

    @cached_property
    def frameworks(self) -> tuple[str, ...]:
        """Those that the workload is written in."""
        return tuple(framework for framework, file in FILES.items() if (self.folder / file).exists())

    def file(self, framework: str) -> str:
        """Such as `models/resnet50/flax_model.py`, to be named to the user."""
        return "/".join((*self.folder.parts[-2:], FILES[framework]))

    def model(self, framework: str) -> Any:
        """The module that writes this workload for `framework`."""
        return importlib.import_module(f"framebench.models.{self.name}.{Path(FILES[framework]).stem}")


def workload(name: str) -> Workload:
    """The declaration of a workload. Raises UnknownName, with the valid names."""
    if name == OWN:
        user_workload: Workload = importlib.import_module("framebench.models.user_model").own()
        return user_workload
    return declared(name)


def names() -> tuple[str, ...]:
    """Every workload there is, in the order of tables. Raises BadWorkload."""
    return tuple(sorted(folders(), key=lambda name: (declared(name).order, name)))


def confirmed_names() -> tuple[str, ...]:
    """Return the workloads whose references two frameworks agree on, in the order of tables.

    Claims and documents are about these. A workload that somebody tries out in one framework changes neither.
    """
    return tuple(name for name in names() if workload(name).references.get("confirmed_by"))


@cache
def declared(name: str) -> Workload:
    """Raises UnknownName, or BadWorkload."""
    if name not in folders():
        raise UnknownName(f"no workload {name!r}; workloads: {', '.join(folders())} (${FURTHER} may name a folder with others)")
    try:
        declaration = importlib.import_module(f"framebench.models.{name}.spec").WORKLOAD
    except Exception as error:
        raise BadWorkload(f"{folders()[name] / 'spec.py'} declares no workload: {type(error).__name__}: {error}") from error
    if declaration.name != name:
        raise BadWorkload(
            f"{folders()[name] / 'spec.py'} calls its workload {declaration.name!r}: it must be called as its folder"
        )
    return declaration


@cache
def folders() -> dict[str, Path]:
    """Workloads by name: what has a `spec.py`, here and in $FRAMEBENCH_MODELS, whose workloads are imported under the same name
    as those here. Raises BadWorkload."""
    here = Path(__file__).parent
    built_in_folders = {file.parent.name: file.parent for file in sorted(here.glob("*/spec.py"))}
    if not os.environ.get(FURTHER):
        return built_in_folders
    further = Path(os.environ[FURTHER]).expanduser().resolve()
    theirs = {file.parent.name: file.parent for file in sorted(further.glob("*/spec.py"))}
    if not theirs:
        raise BadWorkload(f"${FURTHER} is {further}, where no folder has a spec.py")
    for name, folder in theirs.items():
        if name in built_in_folders or name == OWN or not name.isidentifier():
            raise BadWorkload(
                f"{folder}: {name!r} cannot be the name of a workload; taken are {OWN}, {', '.join(built_in_folders)}"
            )
    os.environ[FURTHER] = str(further)  # workers may run in another folder
    models.__path__.append(str(further))
    return built_in_folders | theirs
