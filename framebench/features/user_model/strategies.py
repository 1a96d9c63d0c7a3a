"""Which strategies apply to a model of the user's own: those that need nothing but its blocks, its inputs and its optimizer."""

from __future__ import annotations

from typing import Any

from framebench.suite.registry import STRATEGIES, find, names
from framebench.suite.strategy import Strategy

SCENARIOS = ("train", "eval")
# by `how` of the row: what needs nothing that only the suite's models have
GENERAL = {
    "fp32", "tf32", "default", "amp_bf16", "amp_fp16", "checkpoint", "checkpoint_dots", "offload", "offload_streamed",
    "accumulate", "compile", "optimizer_in_backward", "keep_grads", "foreach", "fused_optimizer", "channels_last",
    "empty_cache", "pool_off", "expandable_segments", "malloc_async", "memory_fraction", "preallocate", "autotune",
    "autotune_off", "multi_steps", "no_donate", "no_jit", "no_grad", "inference_mode", "grad",
}  # fmt: skip


CALLS_THE_OPTIMIZER = {"optimizer_in_backward", "compile_step", "multi_steps"}


def strategies(scenario: str) -> list[str]:
    """Those that people use, and that compute what the baseline does."""
    plans = [find(scenario, name) for name in names(scenario)]
    return [plan.name for plan in plans if plan.same_loss and not plan.only_for_claims and known(plan)]


def known(plan: Strategy) -> bool:
    return {part.how for part in plan.parts} <= GENERAL


def why_not(plan: Strategy, workload: Any) -> str | None:
    """Why a strategy does not apply to what the file has, if it does not. `workload`:
    framebench.features.user_model.spec.Own."""
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


def draws_otherwise(plan: Strategy, framework: str | None) -> bool:
    """Micro-batches draw one after the other, another memory format place by place, a lower precision numbers of its own, and
    Jittor's kernels in the order in which they are fused."""
    formats = {part.axis for part in plan.parts} & {"memory format"}
    return framework == "jittor" or plan.micro_batches > 1 or plan.precision != "fp32" or bool(formats)


def _runs_again(plan: Strategy, facts: dict[str, Any]) -> bool:
    """Whether what each forward pass changes is changed more often in a step than in the baseline's."""
    recomputes = any(_needs_blocks(part, facts.get("framework")) for part in plan.parts)
    return plan.micro_batches > 1 or (recomputes and bool(facts.get("blocks_change")))


def _needs_blocks(part: Strategy, framework: str | None) -> bool:
    """PyTorch's hooks move every saved tensor, whichever module it is of."""
    return part.axis == "recomputation" and not (framework == "torch" and part.how in ("offload", "offload_streamed"))


assert {how for how in GENERAL} <= {plan.how for plan in STRATEGIES.values()}
