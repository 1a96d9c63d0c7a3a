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

from framebench.models.spec import OWN, Optimizer, Param, Preset, UnknownName, Workload

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
        return why_not(plan, self)

    def knows(self, plan: Any) -> bool:
        return known(plan)

    def may_draw(self) -> bool:
        return bool(self.facts.get("random", True))

    def draws_otherwise(self, plan: Any) -> bool:
        return bool(self.facts.get("random")) and draws_otherwise(plan, self.facts.get("framework"))

    @property
    def incomparable(self) -> tuple[str, ...]:
        return tuple(self.facts.get("undetermined", ()))

    def input_shape(self, size: str, batch: int) -> tuple[int, ...]:
        return batch, *self.facts["input"][1:]

    def model(self, framework: str) -> Any:
        """Return the module of the framework's adapter that reads the file; a worker alone can import it."""
        return importlib.import_module(f"framebench.adapters.{framework}.user_model")

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


# by `how` of the row: what needs nothing that only the suite's models have
GENERAL = {
    "fp32", "tf32", "default", "amp_bf16", "amp_fp16", "checkpoint", "checkpoint_dots", "offload", "offload_streamed",
    "accumulate", "compile", "optimizer_in_backward", "keep_grads", "foreach", "fused_optimizer", "channels_last",
    "empty_cache", "pool_off", "expandable_segments", "malloc_async", "memory_fraction", "preallocate", "autotune",
    "autotune_off", "multi_steps", "no_donate", "no_jit", "no_grad", "inference_mode", "grad",
}  # fmt: skip
CALLS_THE_OPTIMIZER = {"optimizer_in_backward", "compile_step", "multi_steps"}


def known(plan: Any) -> bool:
    """Return whether a strategy (a `framebench.strategies.strategy.Strategy`) is one for models of one's own."""
    return {part.how for part in plan.parts} <= GENERAL


def why_not(plan: Any, workload: Own) -> str | None:
    """Return why a strategy does not apply to what the file has, or None where it does."""
    facts = workload.facts
    if not known(plan) or not plan.same_loss:
        return "is not for models of one's own"
    if any(_needs_blocks(part, facts.get("framework")) for part in plan.parts) and not facts.get("blocks", True):
        return "there is no class of which the model has several modules, each with modules in it: name its `blocks`"
    if facts.get("linen") and (plan.precision != "fp32" or any(part.axis == "recomputation" for part in plan.parts)):
        return "a Linen module, or a function, sets its own precision and recomputation, in the file"
    if any("batched" in part.options for part in plan.parts) and not facts.get("attention", True):
        return "no products of matrices in batches, as attention has, are in the model: the same as checkpoint_dots"
    if plan.micro_batches > 1 and facts.get("couples"):
        return f"{facts['couples'][0]} normalises over the batch, so that micro-batches are other mathematics"
    if plan.micro_batches > 1 and facts.get("accumulation"):
        return str(facts["accumulation"])
    if (name := facts.get("remembers")) and _runs_again(plan, facts):
        return f"each forward pass changes {name}, on which the next one depends: another number of passes is other mathematics"
    how = {part.how for part in plan.parts}
    if facts.get("closure") and how & CALLS_THE_OPTIMIZER:
        return f"{facts['optimizer']} computes the loss itself, as often as it likes"
    if facts.get("closure") and plan.precision != "fp32":
        return f"{facts['optimizer']} goes by small differences of gradients, which a lower precision rounds away"
    other_draws = facts.get("random") and draws_otherwise(plan, facts.get("framework"))
    if other_draws and any(name.startswith("compile") for name in how):
        return "the model draws random numbers, and in a compiled step micro-batches and memory formats draw others"
    if facts.get("sparse") and how & {"foreach", "fused_optimizer"}:
        return f"{facts['sparse'][0]} has sparse gradients, which kernels for lists of tensors do not take"
    if facts.get("complex") and "fused_optimizer" in how:
        return f"{facts['complex'][0]} is complex, which the fused kernels do not take"
    if {part.axis for part in plan.parts} & {"memory format", "autotuning"} and not facts.get("images", True):
        return "is for convolutions over inputs of four axes"
    return None


def draws_otherwise(plan: Any, framework: str | None) -> bool:
    """Micro-batches draw one after the other, another memory format place by place, a lower precision numbers of its own, and
    Jittor's kernels in the order in which they are fused."""
    formats = {part.axis for part in plan.parts} & {"memory format"}
    return framework == "jittor" or plan.micro_batches > 1 or plan.precision != "fp32" or bool(formats)


def _runs_again(plan: Any, facts: dict[str, Any]) -> bool:
    """Whether what each forward pass changes is changed more often in a step than in the baseline's."""
    recomputes = any(_needs_blocks(part, facts.get("framework")) for part in plan.parts)
    return plan.micro_batches > 1 or (recomputes and bool(facts.get("blocks_change")))


def _needs_blocks(part: Any, framework: str | None) -> bool:
    """PyTorch's hooks move every saved tensor, whichever module it is of."""
    return part.axis == "recomputation" and not (framework == "torch" and part.how in ("offload", "offload_streamed"))
