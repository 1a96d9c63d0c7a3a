"""Declare workloads, find them, and make the canonical weights that every framework starts from.

A workload is any folder with a `spec.py`, here or in the folder that $FRAMEBENCH_MODELS names.

No framework's own initialiser or random generator is used anywhere: weights and inputs are made
here, in NumPy, from a seed and the parameter's name. So the loss of step 0 must agree between
frameworks to rounding.
"""

from __future__ import annotations

import gzip
import importlib
import json
import math
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from framebench import models
from framebench.models.layer import Layer, Switches
from framebench.models.user_facts import ModelFacts

# The variable that names a folder with workloads of the user's. Workers inherit it.
FOLDER_VARIABLE = "FRAMEBENCH_MODELS"
MODEL_FILES = {"torch": "torch_model.py", "jax": "flax_model.py", "jittor": "jittor_model.py"}
USER_MODEL = "own"  # the workload of a user's file: user_model.py
SEED = 2024
STREAM_BATCHES = 8  # in a stream of sequences or of images
# A size that a number of parameters describes, such as 1.3B, and what else is known of the model:
# 1.3B-s2048-l24 has sequences of 2,048 tokens and 24 layers.
DESCRIBED = re.compile(
    r"(?P<count>\d+(?:\.\d+)?)(?P<unit>[MB])(?:-s(?P<sequence>[1-9]\d*))?"
    r"(?:-w(?P<width>[1-9]\d*))?(?:-l(?P<layers>[1-9]\d*))?(?:-v(?P<vocabulary>[1-9]\d*))?"
)
DESCRIBED_BATCHES = (1, 2, 4, 8)
SEQUENCE = 1024  # tokens of a described model, where nothing else is said
VOCABULARY = 50304
# The biases of norms before a ReLU are around SHIFT times the norm's scale, and OFF_SHARE of them
# around its negative: most channels are on, some off, and few values lie near zero. There rounding
# decides whether a ReLU lets a gradient through, and what one framework lets through and another
# does not is far more than rounding: with biases about zero it was a thousandth of a gradient in
# float32, and half of it in bfloat16.
SHIFT = 2.0
OFF_SHARE = 0.15


class UnknownName(ValueError):
    """A workload, size or batch that is not declared; the message lists those that are."""


class BadWorkload(UnknownName):
    """A workload's folder that cannot be used; the message says which and why."""


@dataclass(frozen=True)
class Param:
    """One named tensor of the model, in PyTorch's name and memory layout.

    Its numbers are normally distributed around `value`, a share of them (`negated`) around the
    negative of it; `positive` ones are log-normal. No tensor is constant, and none is zero: what a
    model leaves out or mixes up would not be seen. Buffers (the running statistics of batch norm)
    are not `trainable`.
    """

    name: str
    shape: tuple[int, ...]
    std: float
    value: float = 0.0
    trainable: bool = True
    positive: bool = False
    negated: float = 0.0

    def make(self) -> np.ndarray:
        """Make the canonical float32 array.

        It does not depend on the order in which parameters are made.
        """
        rng = np.random.default_rng([SEED, zlib.crc32(self.name.encode())])
        spread = rng.standard_normal(self.shape, np.float32) * np.float32(self.std)
        if self.positive:
            return np.float32(self.value) * np.exp(spread)
        if self.negated:
            is_negated = rng.random(self.shape) < self.negated
            return np.where(is_negated, -self.value, self.value).astype(np.float32) + spread
        return np.float32(self.value) + spread

    @property
    def norm(self) -> float:
        """Return about the canonical array's Euclidean norm."""
        return float(math.prod(self.shape) * (self.value**2 + self.std**2)) ** 0.5


@dataclass(frozen=True)
class Optimizer:
    """An optimizer in the textbook form that all frameworks share.

    SGD with momentum, AdamW (Loshchilov & Hutter 2019), or Adafactor (Shazeer & Stern 2018) without
    a first moment, as PyTorch and optax have it.
    """

    name: str  # "sgd" | "adamw" | "adafactor"; "own" where a user's file makes it
    lr: float  # adafactor: relative to the weight's own size
    momentum: float = 0.9  # sgd
    betas: tuple[float, float] = (0.9, 0.95)  # adamw
    eps: float = 1e-8  # adamw, adafactor: of gradients
    weight_decay: float = 0.0

    @property
    def states(self) -> tuple[str, ...]:
        """Return the kinds of state that it keeps of each weight; none where it is unknown."""
        if self.name == "sgd":
            return ("momentum",)
        if self.name == "adamw":
            return ("first moment", "second moment")
        if self.name == "adafactor":
            return ("second moment",)
        return ()

    def count_state_numbers(self, shape: tuple[int, ...]) -> int:
        """Return how many numbers it keeps for a weight of this shape.

        Adafactor stores a matrix's second moment as its means over rows and over columns.
        """
        numbers = math.prod(shape)
        if self.name == "adafactor" and len(shape) > 1:
            return numbers // shape[-1] + numbers // shape[-2]
        return len(self.states) * numbers


@dataclass(frozen=True)
class Preset:
    """A size: the model's configuration, and its batches."""

    config: Any
    batches: tuple[int, ...]  # the batches that have golden values
    base: int  # the batch at which strategies are compared


@dataclass(frozen=True)
class Workload:
    """Everything that the harness needs to know about a workload without importing a framework.

    `config` of the functions is a size's configuration, whose type is the workload's own.
    """

    name: str
    unit: str  # of throughput: "samples" or "tokens"
    optimizer: Optimizer
    sizes: Mapping[str, Preset]
    params: Callable[[Any], Iterator[Param]]
    # (configuration, batch, generator) -> (inputs, targets)
    inputs: Callable[[Any, int, np.random.Generator], tuple[np.ndarray, np.ndarray]]
    couples_samples: bool  # batch norm: micro-batches then change the mathematics
    # whether a step has convolutions, whose workspaces cuDNN chooses on a GPU; None: not declared
    has_convolutions: bool | None = None
    title: str = ""  # in sentences and on pages; by default the name
    order: int = 100  # of tables; those of the same order come by name
    # how the names of asv's classes begin, to which published histories refer; by default the name
    benchmark: str = ""
    # from the input to the loss; without it lower bounds leave activations out, and a step's
    # operations are not counted
    layers: Callable[[Any, Switches], Iterator[Layer]] | None = None
    # name -> what makes the changed configuration
    variants: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    # throughput counts so many units per sample, such as the tokens of a sequence
    units: Callable[[Any], int] = lambda config: 1
    # prefixes of what fine-tuning trains: half | head | lora; without it there is no fine-tuning
    trained: Callable[[Any, str], tuple[str, ...]] | None = None
    head: tuple[str, ...] = ()  # prefixes of the last layer's parameters
    # parts of tensors on which the loss does not depend: their gradient is rounding, which Adam
    # makes as large as any other
    undetermined: Callable[[Any], Mapping[str, slice]] = lambda config: {}
    # (configuration, batch) -> values per channel, by the name of the running variance
    normalised: Callable[[Any, int], Mapping[str, int]] = lambda config, batch: {}
    # of the scenario `pipeline`: images as a disk holds them, and what makes the model's inputs
    raw_images: Callable[[Any, int, np.random.Generator], tuple[np.ndarray, np.ndarray]] | None = (
        None
    )
    prepare: Callable[[np.ndarray], np.ndarray] | None = None
    # the configuration with so many parameters, where a number says enough
    described: Callable[..., Any] | None = None
    # how many layers a program can run as a loop over one
    identical_layers: Callable[[Any], int] = lambda config: 1
    without_golden: tuple[str, ...] = ()  # sizes too large for float64 references
    # framework -> which slow path is written differently
    rewrites: Mapping[str, str] = field(default_factory=dict)
    # of a user's model: what `own.json` holds (`user_model.py`); empty for the suite's workloads
    facts: ModelFacts = field(default_factory=ModelFacts, hash=False)

    def __post_init__(self) -> None:
        """Derive `title` and `benchmark` from the name where they are not given."""
        object.__setattr__(self, "title", self.title or self.name)
        benchmark = self.benchmark or self.name.title().replace("_", "")
        object.__setattr__(self, "benchmark", benchmark)

    def preset(self, size: str) -> Preset:
        """Return a size, declared or described. Raises UnknownName, with the valid sizes."""
        if size in self.sizes:
            return self.sizes[size]
        described = self.describe(size)
        if described is None:
            raise UnknownName(f"{self.name} has no size {size!r}; sizes: {', '.join(self.sizes)}")
        return described

    def describe(self, size: str) -> Preset | None:
        """Return the size that a name such as 1.3B describes, or None if it describes none.

        Raises ValueError where no model comes close to so many parameters.
        """
        matched = DESCRIBED.fullmatch(size)
        if self.described is None or matched is None:
            return None
        width, layers = matched["width"], matched["layers"]
        config = self.described(
            float(matched["count"]) * (1e9 if matched["unit"] == "B" else 1e6),
            int(matched["sequence"] or SEQUENCE),
            int(width) if width else None,
            int(layers) if layers else None,
            int(matched["vocabulary"] or VOCABULARY),
        )
        return Preset(config, DESCRIBED_BATCHES, base=DESCRIBED_BATCHES[0])

    def config(self, size: str, variant: str = "") -> Any:
        """Return the configuration of a size, changed as the variant says. Raises UnknownName."""
        if variant and variant not in self.variants:
            valid = ", ".join(self.variants)
            raise UnknownName(f"{self.name} has no variant {variant!r}; variants: {valid}")
        plain = self.preset(size).config
        return self.variants[variant](plain) if variant else plain

    def make_weights(self, config: Any) -> dict[str, np.ndarray]:
        """Make the canonical float32 weights and buffers, by name."""
        return {param.name: param.make() for param in self.params(config)}

    def make_other_weights(self, config: Any) -> dict[str, np.ndarray]:
        """Make the second model of a pair: the same trunk, the last layer's weights negated."""
        weights = self.make_weights(config)
        for name in weights:
            if name.startswith(self.head):
                weights[name] = -weights[name]
        return weights

    def parameter_count(self, config: Any) -> int:
        """Return the number of trainable parameters."""
        return sum(math.prod(param.shape) for param in self.params(config) if param.trainable)

    def make_batch(self, config: Any, batch: int) -> tuple[np.ndarray, np.ndarray]:
        """Make canonical inputs and targets.

        The pairs are NCHW or NCDHW float32 images with int64 labels, or int64 tokens and targets.
        """
        rng = np.random.default_rng([SEED, zlib.crc32(self.name.encode()), batch])
        return self.inputs(config, batch, rng)

    @cached_property
    def _sample_counts(self) -> dict[str, tuple[int, int, int]]:
        """Return the store of `count_sample`, by configuration."""
        return {}

    def count_sample(self, config: Any) -> tuple[int, int, int]:
        """Return what one sample is made of.

        It is (floating-point numbers of the input, integers of the input, integers of the target).
        """
        key = repr(config)
        if key not in self._sample_counts:  # a volume of the largest size takes a while to draw
            x, y = self.make_batch(config, 1)
            floats = x.size if np.issubdtype(x.dtype, np.floating) else 0
            self._sample_counts[key] = floats, x.size - floats, y.size
        return self._sample_counts[key]

    def input_shape(self, size: str, batch: int) -> tuple[int, ...]:
        """Return the shape of the canonical inputs."""
        return self.make_batch(self.config(size), batch)[0].shape

    def draw_lengths(self, config: Any, batch: int) -> np.ndarray:
        """Draw the true lengths (STREAM_BATCHES, batch) of the sequences of `varlen`.

        The lengths are log-normal, most of them short, as texts are.
        """
        rng = np.random.default_rng([SEED, 1, batch])
        drawn = np.exp(rng.normal(np.log(config.length / 3), 0.6, (STREAM_BATCHES, batch)))
        return np.clip(drawn, 2, config.length).astype(int)

    def make_stream(self, config: Any, batch: int, how: str) -> list[tuple[np.ndarray, np.ndarray]]:
        """Make the batches of `varlen`: (tokens, targets), each (batch, padded length) int64.

        Padding has token 0 and target -1. The same sequences are batched in one of three ways:
        `padded` to the longest possible length; `bucketed`: sorted by length, so that similar ones
        are together, and padded to the next quarter of the longest possible length; or `raw`:
        padded to the longest sequence of the batch. Raises ValueError for another way.
        """
        ways = ("padded", "bucketed", "raw")
        if how not in ways:
            raise ValueError(f"no way {how!r} to batch sequences; choose from: {', '.join(ways)}")
        # every batch of the stream is the same before it is cut to the lengths
        batch_tokens, batch_targets = self.make_batch(config, batch)
        tokens = np.concatenate([batch_tokens] * STREAM_BATCHES)
        targets = np.concatenate([batch_targets] * STREAM_BATCHES)
        lengths = self.draw_lengths(config, batch).ravel()
        if how == "bucketed":
            order = np.argsort(lengths, kind="stable")
            tokens, targets, lengths = tokens[order], targets[order], lengths[order]
        quarter = max(1, config.length // 4)
        batches = []
        for start in range(0, len(lengths), batch):
            rows = slice(start, start + batch)
            longest = int(lengths[rows].max())
            if how == "padded":
                width = config.length
            elif how == "bucketed":
                width = math.ceil(longest / quarter) * quarter
            else:
                width = longest
            is_real = np.arange(config.length) < lengths[rows, None]
            x = np.where(is_real, tokens[rows], 0)[:, :width]
            y = np.where(is_real, targets[rows], -1)[:, :width]
            batches.append((x.copy(), y.copy()))
        return batches

    @property
    def incomparable(self) -> tuple[str, ...]:
        """Return the tensors that are not compared, as their gradient is nothing but rounding."""
        return ()

    @property
    def update_period(self) -> int:
        """Return how many steps an update takes: several where gradients are added up over them."""
        return 1

    @property
    def weight_types(self) -> str:
        """Return the types of the weights in words where any has 16 bits or fewer, or ""."""
        return ""

    def may_draw(self) -> bool:
        """Return whether a step may draw random numbers."""
        return False

    @cached_property
    def references(self) -> dict[str, Any]:
        """Return what golden.json holds; nothing where no reference values were made yet."""
        path = self.folder / "golden.json"
        return json.loads(path.read_text()) if path.exists() else {}

    @property
    def golden(self) -> dict[str, dict[str, float]]:
        """Return the reference values by a case's `golden_key`."""
        return self.references.get("values", {})

    @property
    def unconfirmed(self) -> dict[str, str]:
        """Return, for each `golden_key` that one framework alone has values for, whose they are."""
        makers: dict[str, str] = self.references.get("unconfirmed", {})
        if self.references.get("confirmed_by", "") is None:
            makers = dict.fromkeys(self.golden, self.references["made_by"])
        return {key: f"{by}, confirmed by no other framework" for key, by in makers.items()}

    @cached_property
    def golden_tensors(self) -> dict[str, dict[str, dict[str, tuple[float, ...]]]]:
        """Return the reference summaries, norm and projections, by key, kind and tensor."""
        path = self.folder / "tensors.json.gz"
        return json.loads(gzip.decompress(path.read_bytes())) if path.exists() else {}

    @property
    def folder(self) -> Path:
        """Return the folder with the workload's files."""
        return find_folders()[self.name]

    @property
    def referenced(self) -> tuple[str, ...]:
        """Return the sizes that have float64 references."""
        return tuple(size for size in self.sizes if size not in self.without_golden)

    @cached_property
    def frameworks(self) -> tuple[str, ...]:
        """Return the frameworks that the workload is written for."""
        return tuple(name for name, file in MODEL_FILES.items() if (self.folder / file).exists())

    def describe_file(self, framework: str) -> str:
        """Return a model file's path for a message, such as `models/resnet50/flax_model.py`."""
        return "/".join((*self.folder.parts[-2:], MODEL_FILES[framework]))

    def import_model(self, framework: str) -> ModuleType:
        """Import the module that writes this workload for a framework."""
        stem = Path(MODEL_FILES[framework]).stem
        return importlib.import_module(f"framebench.models.{self.name}.{stem}")


def load_workload(name: str) -> Workload:
    """Return the declaration of a workload. Raises UnknownName, with the valid names."""
    if name == USER_MODEL:
        # imported here, since it imports this module
        user_model = importlib.import_module("framebench.models.user_model")
        workload: Workload = user_model.load_user_workload()
        return workload
    return load_declaration(name)


def list_workloads() -> tuple[str, ...]:
    """Return the names of all workloads, in the order of tables. Raises BadWorkload."""
    return tuple(sorted(find_folders(), key=lambda name: (load_declaration(name).order, name)))


def list_confirmed_workloads() -> tuple[str, ...]:
    """Return the workloads whose references two frameworks agree on, in the order of tables.

    Claims and documents are about these. A workload that somebody tries out in one framework
    changes neither.
    """
    names = list_workloads()
    return tuple(name for name in names if load_workload(name).references.get("confirmed_by"))


@cache
def load_declaration(name: str) -> Workload:
    """Import the `spec.py` of a workload. Raises UnknownName, or BadWorkload."""
    folders = find_folders()
    if name not in folders:
        valid = ", ".join(folders)
        raise UnknownName(
            f"no workload {name!r}; workloads: {valid} "
            f"(${FOLDER_VARIABLE} may name a folder with others)"
        )
    file = folders[name] / "spec.py"
    try:
        workload: Workload = importlib.import_module(f"framebench.models.{name}.spec").WORKLOAD
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise BadWorkload(f"{file} declares no workload: {reason}") from error
    if workload.name != name:
        raise BadWorkload(
            f"{file} calls its workload {workload.name!r}: it must be called as its folder"
        )
    return workload


@cache
def find_folders() -> dict[str, Path]:
    """Return the folders of workloads by name: those with a `spec.py`, here and the user's.

    The user's are in $FRAMEBENCH_MODELS, which this call makes an absolute path and adds to the
    paths of `framebench.models`, so that they are imported as those here. Raises BadWorkload.
    """
    built_in = find_specs(Path(__file__).parent)
    if not os.environ.get(FOLDER_VARIABLE):
        return built_in
    user_folder = Path(os.environ[FOLDER_VARIABLE]).expanduser().resolve()
    added = find_specs(user_folder)
    if not added:
        raise BadWorkload(f"${FOLDER_VARIABLE} is {user_folder}, where no folder has a spec.py")
    for name, folder in added.items():
        if name in built_in or name == USER_MODEL or not name.isidentifier():
            reserved = ", ".join((USER_MODEL, *built_in))
            raise BadWorkload(
                f"{folder}: {name!r} cannot be the name of a workload; taken are {reserved}"
            )
    os.environ[FOLDER_VARIABLE] = str(user_folder)  # workers may run in another folder
    models.__path__.append(str(user_folder))
    return built_in | added


def find_specs(parent: Path) -> dict[str, Path]:
    """Return the folders in `parent` that have a `spec.py`, by name and in order."""
    return {file.parent.name: file.parent for file in sorted(parent.glob("*/spec.py"))}
