"""What the worker asks of a framework. A new framework is one subclass and one model file per workload."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from framebench.cases import Case


@dataclass(frozen=True)
class Effect:
    """Proof, by something other than memory, that the strategy was on: `evidence` is what was counted."""

    proven: bool
    evidence: dict[str, Any]


class Adapter(ABC):
    """One case in one framework. Life: `build`, then `step` and `synchronize` as often as wanted, questions in between."""

    float64 = False  # set before build() to compute reference values

    def __init__(self, case: Case) -> None:
        self.case = case
        self.workload = case.spec
        self.config = case.spec.preset(case.size).config
        self.model_module = case.spec.model(case.framework)

    @abstractmethod
    def build(self) -> None:
        """Model from the canonical weights, optimizer, inputs on the device."""

    @abstractmethod
    def step(self) -> None:
        """One unit of work: forward, backward and update (`train`), or a forward pass (`eval`). May return early."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until everything that `step` asked for is done."""

    @abstractmethod
    def loss(self) -> float:
        """The loss of the last step; in `eval` computed from its logits."""

    @abstractmethod
    def logits(self) -> np.ndarray:
        """`eval`: the last step's logits in the canonical (channels first) layout."""

    @abstractmethod
    def gradient_norm(self) -> float:
        """Global L2 norm of the first step's gradient, read from the optimizer's state after exactly one step.

        After one step SGD's momentum is the gradient, and Adam's first moment is (1 - beta1) times it, so nothing
        needs to be added to the step that is measured.
        """

    @abstractmethod
    def effect(self) -> Effect:
        """Proof that the case's strategy is on. May run further, instrumented steps."""

    def release(self) -> None:
        """Drop the last step's outputs, so that a graph which they hold does not count as state."""

    @abstractmethod
    def live_bytes(self) -> int:
        """Bytes of the tensors alive between two steps: weights, gradients, optimizer states, inputs, last outputs."""

    def reset_peak(self) -> None:
        """Start of the region whose peak `own_peaks` reports."""

    def own_peaks(self) -> dict[str, int]:
        """Bytes by instrument, from the framework's own counters since `reset_peak`; only those that exist here."""
        return {}

    @abstractmethod
    def is_oom(self, error: BaseException) -> bool:
        """Whether an exception means that memory ran out."""

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Versions of the framework and of the libraries that decide its speed."""

    @abstractmethod
    def device(self) -> str:
        """`cpu`, or the accelerator's name."""
