"""The user's model as a workload.

Its folder is $FRAMEBENCH_OWN. There `own.json` says which file it is and what is in it, and `golden.json` and `tensors.json.gz`
are references as in a workload's folder. `framebench try` writes them, from runs of the float32 baseline.

Without the variable it has no values: enough to read records by.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from framebench.features.user_model import strategies
from framebench.models.spec import OWN, Optimizer, Param, Preset, UnknownName, Workload

MODELS = {"torch": "torch_model", "jax": "flax_model", "jittor": "jittor_model"}
VARIABLE = "FRAMEBENCH_OWN"
USUAL = Optimizer("sgd", lr=0.01)  # where the file has none
THEIRS = Optimizer("own", lr=0.0)  # where it has: nothing is known of it


@dataclass(frozen=True)
class Own(Workload):
    """`sizes` has the file's name; every other one is a workload of which nothing is known."""

    facts: dict[str, Any] = field(default_factory=dict, hash=False)

    def preset(self, size: str) -> Preset:
        batch = self.facts.get("batch", 1)
        return Preset(size, (batch,), batch)

    def config(self, size: str, variant: str = "") -> Any:
        if variant:
            raise UnknownName(f"a model of one's own has no variant {variant!r}")
        return size

    def weights(self, config: Any) -> dict[str, np.ndarray]:
        """As the file's model begins."""
        return self.model(self.facts["framework"]).weights()

    def batch(self, config: Any, batch: int) -> tuple[np.ndarray, np.ndarray]:
        return self.model(self.facts["framework"]).batch(batch)

    def refuses(self, plan: Any) -> str | None:
        return strategies.why_not(plan, self)

    def knows(self, plan: Any) -> bool:
        return strategies.known(plan)

    def may_draw(self) -> bool:
        return bool(self.facts.get("random", True))

    def draws_otherwise(self, plan: Any) -> bool:
        return bool(self.facts.get("random")) and strategies.draws_otherwise(plan, self.facts.get("framework"))

    @property
    def incomparable(self) -> tuple[str, ...]:
        return tuple(self.facts.get("undetermined", ()))

    def input_shape(self, size: str, batch: int) -> tuple[int, ...]:
        return batch, *self.facts["input"][1:]

    def model(self, framework: str) -> Any:
        return importlib.import_module(f"framebench.features.user_model.{MODELS[framework]}")

    @property
    def folder(self) -> Path:
        return Path(os.environ.get(VARIABLE, Path(__file__).parent))


def nothing(*_: Any) -> Any:
    raise NotImplementedError("a model of one's own has no inputs but those of its file")


def own() -> Workload:
    """As its folder says now."""
    file = Path(os.environ.get(VARIABLE, "")) / "own.json"
    there = bool(os.environ.get(VARIABLE)) and file.exists()
    return read(file, file.stat().st_mtime_ns) if there else of({})


@lru_cache(maxsize=2)
def read(file: Path, changed: int) -> Workload:
    return of(json.loads(file.read_text()))


def of(facts: dict[str, Any]) -> Workload:
    def params(config: Any) -> Iterator[Param]:
        for name, shape, trainable in facts.get("params", ()):
            yield Param(name, tuple(shape), 0.0, trainable=trainable)

    return Own(
        OWN, "samples", THEIRS if "optimizer" in facts.get("defined", ()) else USUAL, {}, params, nothing,
        couples_samples=bool(facts.get("couples")), facts=facts,
    )  # fmt: skip
