"""Declare what a step computes again in the backward pass, in place of keeping it."""

from __future__ import annotations

from framebench.strategies.strategy import Emulated, Native, Strategy, Unsupported

_NOT_COMPILED = dict.fromkeys(
    ("compile", "compile_step", "memory_budget", "compile_reduce_overhead", "compile_max_autotune"),
    (
        "a compiled step does not show what lies between its products, so nothing would "
        "prove what is computed again"
    ),
)

ROWS = (
    Strategy(
        name="checkpoint",
        scenarios=("train", "finetune"),
        axis="recomputation",
        summary="recompute each block in the backward pass",
        effect="block executions per step; in a compiled step, products computed again",
        support=dict(
            torch=Native(
                "torch.utils.checkpoint per block, non-reentrant; batch norm's momentum 0 while a "
                "block is recomputed, or PyTorch would move its running statistics twice"
            ),
            jax=Native(
                "jax.checkpoint per block, identical blocks as one scanned layer unless some are "
                "frozen; unrolled on XLA:CPU with the pass cse_barrier_expander off, which would "
                "merge the recomputation away"
            ),
            jittor=Emulated("a jt.Function that re-runs the block in its backward"),
        ),
        quick=True,
    ),
    Strategy(
        name="checkpoint_every_2",
        scenarios=("train",),
        axis="recomputation",
        summary="recompute every second block only",
        effect="number of block executions per step",
        support=dict(
            torch=Native("torch.utils.checkpoint around every second block"),
            jax=Native("jax.checkpoint around every second block, unrolled"),
            jittor=Emulated("the jt.Function around every second block"),
        ),
        how="checkpoint",
        options={"every": 2},
    ),
    Strategy(
        name="checkpoint_dots",
        scenarios=("train",),
        axis="recomputation",
        summary="recompute all but the products",
        effect="products executed per step",
        support=dict(
            torch=Native(
                "torch.utils.checkpoint with a selective policy that saves convolutions and "
                "matrix products"
            ),
            jax=Native(
                "jax.checkpoint with the policy dots_saveable (convolutions saved likewise)"
            ),
            jittor=Unsupported(
                "our jt.Function sees a block as one operator; it cannot save single results inside"
            ),
        ),
        clashes=_NOT_COMPILED,
    ),
    Strategy(
        name="checkpoint_linear",
        scenarios=("train",),
        axis="recomputation",
        summary="recompute all but the products of linear layers: attention too",
        effect="products executed per step",
        support=dict(
            torch=Native(
                "torch.utils.checkpoint with a selective policy that saves the products of "
                "linear layers alone"
            ),
            jax=Native("jax.checkpoint with the policy dots_with_no_batch_dims_saveable"),
            jittor=Unsupported(
                "our jt.Function sees a block as one operator; it cannot save single results inside"
            ),
        ),
        how="checkpoint_dots",
        options={"batched": False},
        workloads=("transformer",),
        clashes=_NOT_COMPILED,
    ),
)
