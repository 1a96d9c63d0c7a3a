"""Say what a strategy is for, so that tables of results can be filtered by it."""

from __future__ import annotations

from typing import Literal

from framebench.strategies.strategy import Strategy

Purpose = Literal["baseline", "memory", "speed", "control", "other mathematics", "claim"]

# They take as much memory as the baseline, or more, for the sake of time.
SPEED = frozenset(
    {
        "autotune",
        "channels_last",
        "compile",
        "compile_max_autotune",
        "compile_reduce_overhead",
        "compile_step",
        "default",
        "foreach",
        "fused_optimizer",
        "iterator",
        "jit_script",
        "memmap",
        "pinned",
        "prefetch",
        "rewrite",
        "scan",
        "tf32",
        "together",
        "whole",
    }
)
# They undo what the framework does by itself, and so show what that is worth.
CONTROL = frozenset(
    {
        "attention_plain",
        "autotune_off",
        "grad",
        "keep_grads",
        "no_cache",
        "no_donate",
        "no_fuse",
        "no_jit",
        "padded",
        "pool_off",
        "preallocate",
        "sdpa_math",
    }
)


def find_purpose(strategy: Strategy, baseline: str) -> Purpose:
    """Return what the strategy is for.

    - `claim`: it only tests a sentence of an article.
    - `other mathematics`: another model or another loss.
    - `control`: it, or a part of it, undoes what the framework does by itself.
    - `speed`: all parts are meant to save time.
    - `memory`: all others.
    """
    if strategy.name == baseline:
        return "baseline"
    if strategy.only_for_claims:
        return "claim"
    if not strategy.same_loss:
        return "other mathematics"
    names = {part.name for part in strategy.parts}
    if names & CONTROL:
        return "control"
    if names <= SPEED:
        return "speed"
    return "memory"
