"""Say which strategies apply to a user's model, and why the others do not."""

from __future__ import annotations

from collections.abc import Iterator

from framebench.models.user_facts import ModelFacts
from framebench.strategies.strategy import Strategy

# The switches of strategies that need nothing which only the suite's models have.
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
CALLING_OPTIMIZER = {"optimizer_in_backward", "multi_steps"}
OFFLOADING = {"offload", "offload_streamed"}
# strategies that a file's own training step does itself; those that compile are found otherwise
DONE_BY_STEP = {"accumulate", "amp_bf16", "amp_fp16", "keep_grads", *CALLING_OPTIMIZER}


def explain_refusal(facts: ModelFacts, strategy: Strategy) -> str | None:
    """Return why a strategy does not apply to a model with these facts, or None where it does.

    What is not among the facts is not known, and refuses nothing.
    """
    return next(list_refusals(facts, strategy), None)


def list_refusals(facts: ModelFacts, strategy: Strategy) -> Iterator[str]:
    """Yield the reasons against a strategy. Where several hold, the first is the most telling."""
    switches, axes = list_switches(strategy), list_axes(strategy)
    has_micro_batches = strategy.micro_batches > 1
    is_reduced = is_in_lower_precision(strategy)
    works_by_blocks = changes_blocks(facts, strategy)
    optimizer = facts.get("optimizer", "")

    # what the suite's models have, or the file does by itself
    if not is_general(strategy) or not strategy.same_loss:
        yield "is for the suite's models alone"
    is_decided_by_step = bool(switches & DONE_BY_STEP) or strategy.compiles or is_reduced
    if facts.get("own_step") and is_decided_by_step:
        yield (
            "step() of the file makes its own passes and updates, and sets their precision: "
            "without it, model(), loss() and optimizer() would be tried this way"
        )

    # the inside of the model
    if facts.get("linen") and (is_reduced or "recomputation" in axes):
        yield (
            "a Linen module or a function sets its own precision and recomputation in the file: "
            "it recomputes what is in nn.remat or jax.checkpoint, also inside nn.scan"
        )
    if works_by_blocks and facts.get("blocks") == []:
        yield (
            "there is no class of which the model has several modules, each with modules in it: "
            "name its `blocks`, as in `blocks = Block`, also for one module that a scan repeats"
        )
    is_for_attention = any("batched" in part.options for part in strategy.parts)
    if is_for_attention and not facts.get("attention", True):
        yield (
            "the model has no batched matmuls, which attention consists of: this would be the same "
            "as checkpoint_dots"
        )

    # a batch that is cut into micro-batches, and passes that are repeated
    if has_micro_batches and facts.get("couples"):
        yield (
            f"{facts['couples'][0]} normalises over the batch, so that micro-batches would compute "
            "something else"
        )
    if has_micro_batches and facts.get("uncut"):
        yield facts["uncut"]
    if has_micro_batches and facts.get("accumulation"):
        yield facts["accumulation"]
    repeats_changes = works_by_blocks and facts.get("blocks_change", False)
    if facts.get("remembers") and (has_micro_batches or repeats_changes):
        yield (
            f"each forward pass changes {facts['remembers']} that no gradient trains: another "
            "number of passes would compute something else"
        )

    # the optimizer
    calls_optimizer = bool(switches & CALLING_OPTIMIZER)
    if facts.get("closure") and calls_optimizer:
        yield f"{optimizer} computes the loss itself, as often as it likes"
    if facts.get("passes") and (calls_optimizer or strategy.precision == "fp16"):
        yield f"{optimizer} makes a second pass in its step"
    if facts.get("hooks") and "optimizer_in_backward" in switches:
        yield (
            "hooks of the optimizer get all weights at once, as to clip their gradients: one "
            "optimizer for each weight would compute something else"
        )
    if facts.get("inner") and "optimizer_in_backward" in switches:
        yield f"{optimizer} steps all weights together"
    if facts.get("closure") and is_reduced:
        yield (
            f"{optimizer} goes by small differences of gradients, which a lower precision rounds "
            "away"
        )

    # what a compiler or a kernel does not do
    if strategy.compiles and draws_differently(facts, strategy):
        yield (
            "the model draws random numbers, and in a compiled step micro-batches and memory "
            "formats draw others"
        )
    if facts.get("sparse") and switches & {"foreach", "fused_optimizer"}:
        yield (
            f"{facts['sparse'][0]} has sparse gradients, which kernels for lists of tensors do "
            "not take"
        )
    if facts.get("complex") and "fused_optimizer" in switches:
        yield f"{facts['complex'][0]} is complex, which the fused kernels do not take"
    if axes & {"memory format", "autotuning"} and not facts.get("images", True):
        yield "is for convolutions over inputs of four axes"


def is_general(strategy: Strategy) -> bool:
    """Return whether a strategy is for users' models."""
    return list_switches(strategy) <= GENERAL


def draws_differently(facts: ModelFacts, strategy: Strategy) -> bool:
    """Return whether a step draws random numbers, and with this strategy others.

    Micro-batches draw one after the other, another memory format place by place, a lower precision
    numbers of its own, and Jittor's kernels in the order in which they are fused.
    """
    if not facts.get("random"):
        return False
    return (
        facts.get("framework") == "jittor"
        or strategy.micro_batches > 1
        or is_in_lower_precision(strategy)
        or ("memory format" in list_axes(strategy) and facts.get("draws_by_layout", True))
    )


def list_switches(strategy: Strategy) -> set[str]:
    """Return the switch of each part of a strategy."""
    return {part.switch for part in strategy.parts}


def list_axes(strategy: Strategy) -> set[str]:
    """Return the axis of each part of a strategy."""
    return {part.axis for part in strategy.parts}


def is_in_lower_precision(strategy: Strategy) -> bool:
    """Return whether a strategy computes in a lower precision than float32."""
    return strategy.precision != "fp32"


def changes_blocks(facts: ModelFacts, strategy: Strategy) -> bool:
    """Return whether a strategy changes the model's blocks, as recomputation does.

    PyTorch's hooks for offloading move every saved tensor, whichever module it is of.
    """
    needs_no_blocks = OFFLOADING if facts.get("framework") == "torch" else set()
    changing = {part.switch for part in strategy.parts if part.axis == "recomputation"}
    return bool(changing - needs_no_blocks)
