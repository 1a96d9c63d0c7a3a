"""What a step computes again in the backward pass, in place of keeping it."""

from __future__ import annotations

from framebench.strategies.strategy import Emulated, Native, Strategy, Unsupported, cells

_NOT_COMPILED = dict.fromkeys(
    ("compile", "compile_step", "memory_budget", "compile_reduce_overhead", "compile_max_autotune"),
    "a compiled step does not show what lies between its products, so nothing would prove what is computed again",
)

ROWS = (
    Strategy(
        "checkpoint", ("train", "finetune"), "recomputation", "recompute each block in the backward pass",
        "block executions per step; in a compiled step, products computed again",
        cells(
            Native(
                "torch.utils.checkpoint per block, non-reentrant; batch norm's momentum 0 while a block is recomputed, or PyTorch "
                "would move its running statistics twice"
            ),
            Native(
                "jax.checkpoint per block, identical blocks as one scanned layer unless some are frozen; unrolled on XLA:CPU "
                "with the pass cse_barrier_expander off, which would merge the recomputation away"
            ),
            Emulated("a jt.Function that re-runs the block in its backward"),
        ),
        quick=True,
    ),
    Strategy(
        "checkpoint_every_2", ("train",), "recomputation", "recompute every second block only", "number of block executions per step",
        cells(
            Native("torch.utils.checkpoint around every second block"),
            Native("jax.checkpoint around every second block, unrolled"),
            Emulated("the jt.Function around every second block"),
        ),
        how="checkpoint", options={"every": 2},
    ),
    Strategy(
        "checkpoint_dots", ("train",), "recomputation", "recompute all but the products", "products executed per step",
        cells(
            Native("torch.utils.checkpoint with a selective policy that saves convolutions and matrix products"),
            Native("jax.checkpoint with the policy dots_saveable (convolutions saved likewise)"),
            Unsupported("our jt.Function sees a block as one operator; it cannot save single results inside"),
        ),
        clashes=_NOT_COMPILED,
    ),
    Strategy(
        "checkpoint_linear", ("train",), "recomputation", "recompute all but the products of linear layers: attention too",
        "products executed per step",
        cells(
            Native("torch.utils.checkpoint with a selective policy that saves the products of linear layers alone"),
            Native("jax.checkpoint with the policy dots_with_no_batch_dims_saveable"),
            Unsupported("our jt.Function sees a block as one operator; it cannot save single results inside"),
        ),
        how="checkpoint_dots", options={"batched": False}, workloads=("transformer",), clashes=_NOT_COMPILED,
    ),
)  # fmt: skip
