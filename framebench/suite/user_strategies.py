"""Say which strategies apply to a user's model, and why the others do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

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


class Refusal(NamedTuple):
    """A rule by which a strategy does not apply to a user's model."""

    holds: Callable[[ModelFacts, Strategy], bool]
    reason: str  # {names} in it are facts


def explain_refusal(facts: ModelFacts, strategy: Strategy) -> str | None:
    """Return why a strategy does not apply to a model with these facts, or None where it does.

    What is not among the facts is not known, and refuses nothing.
    """
    for refusal in REFUSALS:
        if refusal.holds(facts, strategy):
            return refusal.reason.format_map(facts)
    return None


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
        or has_micro_batches(strategy)
        or is_reduced(strategy)
        or ("memory format" in list_axes(strategy) and facts.get("draws_by_layout", True))
    )


def list_switches(strategy: Strategy) -> set[str]:
    """Return the switch of each part of a strategy."""
    return {part.switch for part in strategy.parts}


def list_axes(strategy: Strategy) -> set[str]:
    """Return the axis of each part of a strategy."""
    return {part.axis for part in strategy.parts}


def has_micro_batches(strategy: Strategy) -> bool:
    """Return whether a strategy cuts the batch."""
    return strategy.micro_batches > 1


def is_reduced(strategy: Strategy) -> bool:
    """Return whether a strategy computes in a lower precision than float32."""
    return strategy.precision != "fp32"


def calls_optimizer(strategy: Strategy) -> bool:
    """Return whether a strategy calls the optimizer in a way of its own."""
    return bool(list_switches(strategy) & CALLING_OPTIMIZER)


def works_by_blocks(facts: ModelFacts, strategy: Strategy) -> bool:
    """Return whether a strategy changes the model's blocks, as recomputation does.

    PyTorch's hooks for offloading move every saved tensor, whichever module it is of.
    """
    needs_no_blocks = OFFLOADING if facts.get("framework") == "torch" else set()
    changing = {part.switch for part in strategy.parts if part.axis == "recomputation"}
    return bool(changing - needs_no_blocks)


# the rules, each asked after those above it


def is_for_suite(facts: ModelFacts, strategy: Strategy) -> bool:
    """Return whether a strategy needs what only the suite's models have."""
    return not is_general(strategy) or not strategy.same_loss


def is_done_by_own_step(facts: ModelFacts, strategy: Strategy) -> bool:
    """Return whether the file's own training step decides what the strategy would."""
    switches = list_switches(strategy)
    is_decided = bool(switches & DONE_BY_STEP) or strategy.compiles or is_reduced(strategy)
    return facts.get("own_step", False) and is_decided


def lacks_blocks(facts: ModelFacts, strategy: Strategy) -> bool:
    """Return whether a strategy works block by block, and the model has no blocks."""
    return works_by_blocks(facts, strategy) and facts.get("blocks") == []


def would_change_linen(facts: ModelFacts, strategy: Strategy) -> bool:
    """Return whether a strategy would change the inside of a Linen module or a function."""
    changes_modules = is_reduced(strategy) or "recomputation" in list_axes(strategy)
    return facts.get("linen", False) and changes_modules


def lacks_attention(facts: ModelFacts, strategy: Strategy) -> bool:
    """Return whether a strategy is about batched products, and the model has none."""
    is_about_them = any("batched" in part.options for part in strategy.parts)
    return is_about_them and not facts.get("attention", True)


def normalises_over_batch(facts: ModelFacts, strategy: Strategy) -> bool:
    """Return whether micro-batches would meet a layer that normalises over the batch."""
    return has_micro_batches(strategy) and bool(facts.get("couples"))


def cannot_cut_batch(facts: ModelFacts, strategy: Strategy) -> bool:
    """Return whether micro-batches are asked for of a batch that cannot be cut."""
    return has_micro_batches(strategy) and bool(facts.get("uncut"))


def does_not_add_up(facts: ModelFacts, strategy: Strategy) -> bool:
    """Return whether micro-batches would not add up to the batch."""
    return has_micro_batches(strategy) and bool(facts.get("accumulation"))


def repeats_what_is_remembered(facts: ModelFacts, strategy: Strategy) -> bool:
    """Return whether a strategy repeats a forward pass that changes what the model remembers."""
    recomputes_changes = works_by_blocks(facts, strategy) and facts.get("blocks_change", False)
    return bool(facts.get("remembers")) and (has_micro_batches(strategy) or recomputes_changes)


def takes_loss_from_optimizer(facts: ModelFacts, strategy: Strategy) -> bool:
    """Return whether a strategy calls an optimizer that would compute the loss itself."""
    return facts.get("closure", False) and calls_optimizer(strategy)


def takes_second_pass_from_optimizer(facts: ModelFacts, strategy: Strategy) -> bool:
    """Return whether an optimizer that makes a second pass is called in another way, or scaled."""
    is_scaled = strategy.precision == "fp16"
    return facts.get("passes", False) and (calls_optimizer(strategy) or is_scaled)


def divides_hooked_optimizer(facts: ModelFacts, strategy: Strategy) -> bool:
    """Return whether a strategy makes several optimizers of one with hooks."""
    return facts.get("hooks", False) and "optimizer_in_backward" in list_switches(strategy)


def divides_wrapped_optimizer(facts: ModelFacts, strategy: Strategy) -> bool:
    """Return whether a strategy makes several optimizers of one that wraps others."""
    return bool(facts.get("inner")) and "optimizer_in_backward" in list_switches(strategy)


def rounds_differences_away(facts: ModelFacts, strategy: Strategy) -> bool:
    """Return whether an optimizer that compares gradients would get them in a lower precision."""
    return facts.get("closure", False) and is_reduced(strategy)


def draws_differently_compiled(facts: ModelFacts, strategy: Strategy) -> bool:
    """Return whether a compiled step would draw other random numbers than the baseline's."""
    return strategy.compiles and draws_differently(facts, strategy)


def lists_sparse_gradients(facts: ModelFacts, strategy: Strategy) -> bool:
    """Return whether a kernel for lists of tensors would get sparse gradients."""
    takes_lists = bool(list_switches(strategy) & {"foreach", "fused_optimizer"})
    return bool(facts.get("sparse")) and takes_lists


def fuses_complex_weights(facts: ModelFacts, strategy: Strategy) -> bool:
    """Return whether a fused optimizer would get complex weights."""
    return bool(facts.get("complex")) and "fused_optimizer" in list_switches(strategy)


def lacks_images(facts: ModelFacts, strategy: Strategy) -> bool:
    """Return whether a strategy is for 2-D convolutions, and the model has none."""
    is_for_convolutions = bool(list_axes(strategy) & {"memory format", "autotuning"})
    return is_for_convolutions and not facts.get("images", True)


REFUSALS = (
    Refusal(is_for_suite, "is not for models of one's own"),
    Refusal(
        is_done_by_own_step,
        "step() of the file makes its own passes and updates, and sets their precision: without "
        "it, model(), loss() and optimizer() would be tried this way",
    ),
    Refusal(
        would_change_linen,
        "a Linen module or a function sets its own precision and recomputation in the file: "
        "it recomputes what is in nn.remat or jax.checkpoint, also inside nn.scan",
    ),
    Refusal(
        lacks_blocks,
        "there is no class of which the model has several modules, each with modules in it: name "
        "its `blocks`, as in `blocks = Block`, also for one module that a scan repeats",
    ),
    Refusal(
        lacks_attention,
        "no products of matrices in batches, as attention has, are in the model: the same as "
        "checkpoint_dots",
    ),
    Refusal(
        normalises_over_batch,
        "{couples[0]} normalises over the batch, so that micro-batches are other mathematics",
    ),
    Refusal(cannot_cut_batch, "{uncut}"),
    Refusal(does_not_add_up, "{accumulation}"),
    Refusal(
        repeats_what_is_remembered,
        "each forward pass changes {remembers} that no gradient trains: another number of passes "
        "is other mathematics",
    ),
    Refusal(
        takes_loss_from_optimizer, "{optimizer} computes the loss itself, as often as it likes"
    ),
    Refusal(takes_second_pass_from_optimizer, "{optimizer} makes a second pass in its step"),
    Refusal(
        divides_hooked_optimizer,
        "hooks of the optimizer get all weights at once, as to clip their gradients: one optimizer "
        "for each weight is other mathematics",
    ),
    Refusal(divides_wrapped_optimizer, "{optimizer} steps all weights together"),
    Refusal(
        rounds_differences_away,
        "{optimizer} goes by small differences of gradients, which a lower precision rounds away",
    ),
    Refusal(
        draws_differently_compiled,
        "the model draws random numbers, and in a compiled step micro-batches and memory formats "
        "draw others",
    ),
    Refusal(
        lists_sparse_gradients,
        "{sparse[0]} has sparse gradients, which kernels for lists of tensors do not take",
    ),
    Refusal(fuses_complex_weights, "{complex[0]} is complex, which the fused kernels do not take"),
    Refusal(lacks_images, "is for convolutions over inputs of four axes"),
)
