"""Jittor's switches for the strategies of `framebench/strategies/checkpoint.toml`.

Jittor has no checkpointing of its own (Chen et al. 2016): here a Function repeats its block in the
backward pass.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import jittor as jt
from jittor import Module, Var, nn

from framebench.adapters.base import Switches
from framebench.adapters.jittor.adapter import JittorAdapter, list_trainable
from framebench.adapters.proof import Evidence, Proof, above, at_least, equal_to, expect
from framebench.adapters.replacing import freeze_statistics, replace_attributes

switch = Switches()


class Checkpoint(jt.Function):
    """Run a block without keeping its intermediate results, and again in the backward pass.

    To `jt.grad` a Function is one operator. The block's parameters are therefore arguments too:
    otherwise they would get no gradient. Random numbers are kept: they are drawn when the graph
    runs, in an unknown order, so a seed could not reproduce them.
    """

    def __init__(self, block: Module, activations: int) -> None:
        """Set the block, and how many arguments are activations: the others are parameters."""
        self.block = block
        self.activations = activations
        self.drawn: list[Var] = []

    def execute(self, *args: Var) -> Var:
        """Run the block, and keep its activations and random numbers."""
        self.saved_inputs = [x.detach() for x in args[: self.activations]]
        random = jt.random

        def draw_and_keep(*args: Any, **options: Any) -> Var:
            self.drawn.append(random(*args, **options))
            return self.drawn[-1]

        # every random function of Jittor draws by `jt.random`
        with jt.no_grad(), replace_attributes(jt, random=draw_and_keep):
            return self.block(*self.saved_inputs)

    def grad(self, upstream: Var) -> list[Var]:
        """Run the block again, and return the gradients of activations and parameters."""
        inputs = [x.detach().start_grad() for x in self.saved_inputs]
        drawn_numbers = iter(self.drawn)

        def redraw(*_: Any, **options: Any) -> Var:
            return next(drawn_numbers)

        norms = [each for each in self.block.modules() if isinstance(each, nn.BatchNorm)]
        with freeze_statistics(norms), replace_attributes(jt, random=redraw):
            output = self.block(*inputs)
        # The derivative of sum(output * upstream) is the vector-Jacobian product. Being lazy,
        # Jittor never computes the sum.
        total = output * upstream.stop_grad()
        grads = jt.grad(total, inputs + list_trainable(self.block), retain_graph=False)
        return [g.stop_grad() for g in grads]


def run_checkpointed(block: Module, *activations: Var) -> Var:
    """Run a block that is computed again in the backward pass."""
    return Checkpoint(block, len(activations))(*activations, *list_trainable(block))


@switch
def checkpoint(adapter: JittorAdapter, every: int = 1) -> Proof:
    """Recompute the activations of each `every`-th block in the backward pass."""
    recomputed_blocks: list[Module] = []

    def attach(model: Module) -> None:
        """Choose the blocks of a new model, and let it run them by `recompute_block`."""
        recomputed_blocks[:] = adapter.model_module.blocks_of(model)[::every]
        chosen_ids = {id(block) for block in recomputed_blocks}

        def recompute_block(block: Module, *xs: Any, **kwargs: Any) -> Any:
            # no Function takes arguments by keyword
            if id(block) in chosen_ids and not kwargs:
                return run_checkpointed(block, *xs)
            return Module.__call__(block, *xs, **kwargs)

        model.block_runner = recompute_block

    def count_recomputed(observed: Evidence) -> Evidence:
        """Count the blocks that recompute, and the runs that all blocks should have together."""
        # a block below every trained weight has nothing to recompute for
        recomputed = [block for block in recomputed_blocks if list_trainable(block)]
        runs = count_plain_runs(adapter)
        repeated = sum(min(runs[id(block)], adapter.micro_batches) for block in recomputed)
        return {
            "blocks_recomputed": len(recomputed),
            "recomputations": repeated,
            "expected_runs": runs.total() + repeated,
        }

    # a user's block may run several times in a pass
    bound = at_least("expected_runs") if adapter.is_user_model else equal_to("expected_runs")
    adapter.recipe.on_model.append(attach)
    proof = expect(blocks_recomputed=above(0), recomputations=above(0), block_runs=bound)
    return proof.counting_from(count_recomputed)


def count_plain_runs(adapter: JittorAdapter) -> Counter[int]:
    """Return how often each block, by its `id`, runs in a step that recomputes none.

    A user's blocks may run several times, or not at all.
    """
    runs: Counter[int] = Counter()

    def run_plainly(block: Module, *xs: Any, **named: Any) -> Any:
        runs[id(block)] += 1
        return Module.__call__(block, *xs, **named)

    with replace_attributes(adapter.model, block_runner=run_plainly):
        adapter.seed()
        adapter.one_step()
        adapter.synchronize()
    return runs
