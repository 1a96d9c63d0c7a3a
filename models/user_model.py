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
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from framebench.models.spec import USER_MODEL, Optimizer, Param, Preset, UnknownName, Workload

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

    def explain_refusal(self, plan: Any) -> str | None:
        """Return why a strategy does not apply to what the file has, or None where it does."""
        facts = self.facts
        switches = list_switches(plan)
        axes = list_axes(plan)
        is_reduced = plan.precision != "fp32"
        has_micro_batches = plan.micro_batches > 1
        if not is_general(plan) or not plan.same_loss:
            return "is not for models of one's own"
        is_compiled = any(switch.startswith("compile") for switch in switches)
        if facts.get("own_step") and (switches & DONE_BY_STEP or is_compiled or is_reduced):
            return (
                "step() of the file makes its own passes and updates, and sets their precision: "
                "without it, model(), loss() and optimizer() would be tried this way"
            )
        # recomputation works block by block; PyTorch's hooks for offloading move every saved
        # tensor, whichever module it is of
        hooks = OFFLOADING if facts.get("framework") == "torch" else set()
        needs_blocks = any(
            part.axis == "recomputation" and part.how not in hooks for part in plan.parts
        )
        if needs_blocks and not facts.get("blocks", True):
            return (
                "there is no class of which the model has several modules, each with modules in "
                "it: name its `blocks`"
            )
        if facts.get("linen") and (is_reduced or "recomputation" in axes):
            return (
                "a Linen module or a function sets its own precision and recomputation in the file"
            )
        recomputes_selectively = any("batched" in part.options for part in plan.parts)
        if recomputes_selectively and not facts.get("attention", True):
            return (
                "no products of matrices in batches, as attention has, are in the model: the "
                "same as checkpoint_dots"
            )
        if has_micro_batches and facts.get("couples"):
            layer = facts["couples"][0]
            return f"{layer} normalises over the batch, so that micro-batches are other mathematics"
        if has_micro_batches and facts.get("uncut"):
            return str(facts["uncut"])
        if has_micro_batches and facts.get("accumulation"):
            return str(facts["accumulation"])
        repeats_forward = has_micro_batches or (needs_blocks and facts.get("blocks_change"))
        if facts.get("remembers") and repeats_forward:
            return (
                f"each forward pass changes {facts['remembers']} that no gradient trains: another "
                "number of passes is other mathematics"
            )
        if facts.get("closure") and switches & CALLS_THE_OPTIMIZER:
            return f"{facts['optimizer']} computes the loss itself, as often as it likes"
        if facts.get("passes") and (switches & CALLS_THE_OPTIMIZER or plan.precision == "fp16"):
            return f"{facts['optimizer']} makes a second pass in its step"
        if "optimizer_in_backward" in switches and facts.get("hooks"):
            return (
                "hooks of the optimizer get all weights at once, as to clip their gradients: one "
                "optimizer for each weight is other mathematics"
            )
        if "optimizer_in_backward" in switches and facts.get("inner"):
            return f"{facts['optimizer']} steps all weights together"
        if facts.get("closure") and is_reduced:
            return (
                f"{facts['optimizer']} goes by small differences of gradients, which a lower "
                "precision rounds away"
            )
        if is_compiled and self.draws_differently(plan):
            return (
                "the model draws random numbers, and in a compiled step micro-batches and memory "
                "formats draw others"
            )
        if facts.get("sparse") and switches & {"foreach", "fused_optimizer"}:
            layer = facts["sparse"][0]
            return f"{layer} has sparse gradients, which kernels for lists of tensors do not take"
        if facts.get("complex") and "fused_optimizer" in switches:
            return f"{facts['complex'][0]} is complex, which the fused kernels do not take"
        if axes & {"memory format", "autotuning"} and not facts.get("images", True):
            return "is for convolutions over inputs of four axes"
        return None

    @property
    def weight_types(self) -> str:
        """Return the types of the file's weights in words, or "" if none is narrow.

        Such weights are predicted in the types that the file gives them, and never measured.
        """
        return describe_types(self.facts.get("types", {}))

    def can_measure(self, plan: Any) -> bool:
        """Return whether a strategy is one for users' models."""
        return is_general(plan)

    def may_draw(self) -> bool:
        """Return whether a step may draw random numbers."""
        return bool(self.facts.get("random", True))

    def draws_differently(self, plan: Any) -> bool:
        """Return whether a step draws random numbers, and with this strategy others.

        Micro-batches draw one after the other, another memory format place by place, a lower
        precision numbers of its own, and Jittor's kernels in the order in which they are fused.
        """
        if not self.facts.get("random"):
            return False
        return (
            self.facts.get("framework") == "jittor"
            or plan.micro_batches > 1
            or plan.precision != "fp32"
            or "memory format" in list_axes(plan)
        )

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
    total = sum(numbers.values())
    return " and ".join(f"{name} ({numbers[name] / total:.0%})" for name in largest_first)


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


def make_user_workload(facts: dict[str, Any]) -> Workload:
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


# The strategies, by `how` of the row, that need nothing which only the suite's models have.
GENERAL = {
    "accumulate",
    "amp_bf16",
    "amp_fp16",
    "autotune",
    "autotune_off",
    "channels_last",
    "checkpoint",
    "checkpoint_dots",
    "compile",
    "default",
    "empty_cache",
    "expandable_segments",
    "foreach",
    "fp32",
    "fused_optimizer",
    "grad",
    "inference_mode",
    "keep_grads",
    "malloc_async",
    "memory_fraction",
    "multi_steps",
    "no_donate",
    "no_grad",
    "no_jit",
    "offload",
    "offload_streamed",
    "optimizer_in_backward",
    "pool_off",
    "preallocate",
    "tf32",
}
CALLS_THE_OPTIMIZER = {"optimizer_in_backward", "compile_step", "multi_steps"}
OFFLOADING = {"offload", "offload_streamed"}
# strategies that a file's own training step does itself; those that compile are found otherwise
DONE_BY_STEP = {"accumulate", "amp_bf16", "amp_fp16", "keep_grads", *CALLS_THE_OPTIMIZER}


def is_general(plan: Any) -> bool:
    """Return whether a strategy, a `strategies.strategy.Strategy`, is for users' models."""
    return list_switches(plan) <= GENERAL


def list_switches(plan: Any) -> set[str]:
    """Return `how` of each part of a strategy."""
    return {part.how for part in plan.parts}


def list_axes(plan: Any) -> set[str]:
    """Return the axis of each part of a strategy."""
    return {part.axis for part in plan.parts}
