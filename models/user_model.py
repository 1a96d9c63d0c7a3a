"""The user's model as a workload.

Its folder is $FRAMEBENCH_OWN. There `own.json` says which file it is and what is in it, and
`golden.json` and `tensors.json.gz` are references as in a workload's folder. `framebench try`
writes them, from runs of the float32 baseline.

Without the variable the workload has no values: enough to read records by.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from framebench.models.spec import USER_MODEL, Optimizer, Param, Preset, UnknownName, Workload
from framebench.models.user_facts import ModelFacts

FOLDER_VARIABLE = "FRAMEBENCH_OWN"
DEFAULT_OPTIMIZER = Optimizer("sgd", lr=0.01)  # where the file has none
FULL_PRECISIONS = {"float32", "float64", "complex64", "complex128"}
UNKNOWN_OPTIMIZER = Optimizer("own", lr=0.0)  # where it has: nothing is known of it


@dataclass(frozen=True)
class UserWorkload(Workload):
    """The workload of a user's file. A size is the file's name.

    Without `facts` nothing is known of the model.
    """

    def preset(self, size: str) -> Preset:
        """Return the one size there is, at the file's batch."""
        batch = self.facts.get("batch", 1)
        return Preset(size, (batch,), batch)

    def config(self, size: str, variant: str = "") -> Any:
        """Return the size itself. Raises UnknownName for a variant: there are none."""
        if variant:
            raise UnknownName(f"a model of one's own has no variant {variant!r}")
        return size

    def make_weights(self, config: Any) -> dict[str, np.ndarray]:
        """Return the weights that the file's model begins with."""
        weights: dict[str, np.ndarray] = self.import_model(self.facts["framework"]).weights()
        return weights

    def make_batch(self, config: Any, batch: int) -> tuple[np.ndarray, np.ndarray]:
        """Return inputs and targets as the file makes them."""
        inputs, targets = self.import_model(self.facts["framework"]).batch(batch)
        return inputs, targets

    @property
    def weight_types(self) -> str:
        """Return the types of the file's weights in words, or "" if none is narrow.

        Such weights are predicted in the types that the file gives them, and never measured.
        """
        return describe_types(self.facts.get("types", {}))

    def may_draw(self) -> bool:
        """Return whether a step may draw random numbers."""
        return bool(self.facts.get("random", True))

    @property
    def incomparable(self) -> tuple[str, ...]:
        """Return the tensors that are not compared, as their gradient is nothing but rounding."""
        return tuple(self.facts.get("undetermined", ()))

    @property
    def update_period(self) -> int:
        """Return how many steps a whole update takes; `user_file.reference` has found it out."""
        return int(self.facts.get("update_period", 1))

    def input_shape(self, size: str, batch: int) -> tuple[int, ...]:
        """Return the shape of the file's inputs, of another batch."""
        return batch, *self.facts["input"][1:]

    def import_model(self, framework: str) -> ModuleType:
        """Import the adapter's module that reads the file; only a worker can."""
        return importlib.import_module(f"framebench.adapters.{framework}.user_model")

    @property
    def folder(self) -> Path:
        """Return the folder with `own.json` and the references."""
        return Path(os.environ.get(FOLDER_VARIABLE, Path(__file__).parent))


def describe_types(numbers: dict[str, int]) -> str:
    """Return the types of weights in words, or "" if none has 16 bits or fewer.

    `numbers` has how many numbers there are of each type.
    """
    if not numbers.keys() - FULL_PRECISIONS:
        return ""
    largest_first = sorted(numbers, key=lambda name: numbers[name], reverse=True)
    if len(largest_first) == 1:
        return largest_first[0]
    percents = round_shares([numbers[name] for name in largest_first])
    return " and ".join(
        f"{name} ({percent}%)" for name, percent in zip(largest_first, percents, strict=True)
    )


def round_shares(numbers: Sequence[int]) -> list[int]:
    """Return the shares of these numbers in whole percents that add up to 100.

    Those that lose most when all are rounded down are rounded up (largest remainders).
    """
    total = sum(numbers)
    percents = [100 * number // total for number in numbers]
    remainders = [100 * number % total for number in numbers]
    by_remainder = sorted(range(len(numbers)), key=lambda place: remainders[place], reverse=True)
    for place in by_remainder[: 100 - sum(percents)]:
        percents[place] += 1
    return percents


def refuse_inputs(*_: Any) -> Any:
    """Raise: inputs are the file's, and none are made from a configuration."""
    raise NotImplementedError("a model of one's own has no inputs but those of its file")


def load_user_workload() -> Workload:
    """Return the workload that the folder describes now, or one of which nothing is known."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder:
        file = Path(folder) / "own.json"
        if file.exists():
            return read_user_workload(file, file.stat().st_mtime_ns)
    return make_user_workload({})


@lru_cache(maxsize=2)
def read_user_workload(file: Path, modified_ns: int) -> Workload:
    """Return the workload of an `own.json`, which is read again when its file was modified."""
    return make_user_workload(json.loads(file.read_text()))


def make_user_workload(facts: ModelFacts) -> Workload:
    """Return the workload of a file with these facts."""

    def make_params(config: Any) -> Iterator[Param]:
        for name, shape, trainable in facts.get("params", ()):
            yield Param(name, tuple(shape), 0.0, trainable=trainable)

    has_optimizer = "optimizer" in facts.get("defined", ()) or facts.get("configures_optimizer")
    return UserWorkload(
        name=USER_MODEL,
        unit="samples",
        optimizer=UNKNOWN_OPTIMIZER if has_optimizer else DEFAULT_OPTIMIZER,
        sizes={},
        params=make_params,
        inputs=refuse_inputs,
        couples_samples=bool(facts.get("couples")),
        facts=facts,
    )
