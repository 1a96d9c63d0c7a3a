"""What a workload declares, and the canonical weights every framework starts from.

No framework's own initialiser or random generator is used anywhere: weights and inputs are made here, in NumPy, from a seed
and the parameter's name. So the loss of step 0 must agree between frameworks to rounding.
"""

from __future__ import annotations

import importlib
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

NAMES = ("resnet50", "unet3d", "transformer")
SEED = 2024
MICRO_BATCHES = 4  # of the `accumulate` strategy


class UnknownName(ValueError):
    """A workload, size or batch that is not declared; the message lists those that are."""


@dataclass(frozen=True)
class Param:
    """One named tensor of the model, in PyTorch's name and memory layout.

    `std` is the standard deviation of a centred normal; `std=0` means the constant `value`. Buffers (the running statistics
    of batch norm) are not `trainable`.
    """

    name: str
    shape: tuple[int, ...]
    std: float = 0.0
    value: float = 0.0
    trainable: bool = True

    def make(self) -> np.ndarray:
        """The canonical float32 array; independent of the order in which parameters are made."""
        if self.std == 0:
            return np.full(self.shape, self.value, np.float32)
        rng = np.random.default_rng([SEED, zlib.crc32(self.name.encode())])
        return rng.standard_normal(self.shape, np.float32) * np.float32(self.std)


@dataclass(frozen=True)
class Optimizer:
    """SGD with momentum or AdamW (Loshchilov & Hutter 2019), in the textbook form that all three frameworks share."""

    name: str  # "sgd" | "adamw"
    lr: float
    momentum: float = 0.9  # sgd
    betas: tuple[float, float] = (0.9, 0.95)  # adamw
    eps: float = 1e-8  # adamw
    weight_decay: float = 0.0


@dataclass(frozen=True)
class Preset:
    """A size: the model's configuration and the batches that have golden values."""

    config: Any
    batches: tuple[int, ...]
    sample_units: int = 1  # throughput counts this many units per sample (tokens of a sequence)


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
    scan_layers: bool = False  # identical blocks, which JAX can run as one scanned layer
    rewrites: Mapping[str, str] = field(default_factory=dict)  # framework -> which slow path is written differently

    def preset(self, size: str) -> Preset:
        """Raises UnknownName, with the valid sizes."""
        if size not in self.sizes:
            raise UnknownName(f"{self.name} has no size {size!r}; sizes: {', '.join(self.sizes)}")
        return self.sizes[size]

    def weights(self, size: str) -> dict[str, np.ndarray]:
        """Canonical float32 weights and buffers by name."""
        return {p.name: p.make() for p in self.params(self.preset(size).config)}

    def parameter_count(self, size: str) -> int:
        return sum(int(np.prod(p.shape)) for p in self.params(self.preset(size).config) if p.trainable)

    def batch(self, size: str, batch: int) -> tuple[np.ndarray, np.ndarray]:
        """Canonical inputs and targets: NCHW / NCDHW float32 images with int64 labels, or int64 tokens and targets."""
        rng = np.random.default_rng([SEED, zlib.crc32(self.name.encode()), batch])
        return self.inputs(self.preset(size).config, batch, rng)

    @cached_property
    def golden(self) -> dict[str, dict[str, float]]:
        """Reference values by `golden_key`; empty where none were made yet."""
        path = Path(__file__).parent / self.name / "golden.json"
        return json.loads(path.read_text())["values"] if path.exists() else {}

    def golden_key(self, size: str, batch: int, scenario: str, micro_batches: int = 1) -> str:
        """Micro-batches have values of their own only where the samples of a batch influence each other."""
        split = f"/m{micro_batches}" if micro_batches > 1 and self.couples_samples else ""
        return f"{size}/{scenario}/b{batch}{split}"

    def model(self, framework: str) -> Any:
        """The module that writes this workload for `framework`: `torch`, `jax` (Flax) or `jittor`."""
        file = {"torch": "torch_model", "jax": "flax_model", "jittor": "jittor_model"}[framework]
        return importlib.import_module(f"models.{self.name}.{file}")


def workload(name: str) -> Workload:
    """The declaration of a workload. Raises UnknownName, with the valid names."""
    if name not in NAMES:
        raise UnknownName(f"no workload {name!r}; workloads: {', '.join(NAMES)}")
    return importlib.import_module(f"models.{name}.spec").WORKLOAD


def logits_summary(logits: np.ndarray) -> dict[str, float]:
    """Norm and a projection of the logits: the projection sees what a norm cannot, a permutation or a sign."""
    flat = np.asarray(logits, np.float64).ravel()
    direction = np.cos(np.arange(flat.size, dtype=np.float64))
    return {"logits_norm": float(np.linalg.norm(flat)), "logits_checksum": float(flat @ direction)}
