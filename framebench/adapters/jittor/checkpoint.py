"""How Jittor switches on the strategies of `framebench/strategies/checkpoint.py`, and what proves that they were on.

Jittor has no checkpointing of its own (Chen et al. 2016): here a Function runs its block once more in the backward pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jittor as jt
from jittor import Module, Var, nn

from framebench.adapters.base import Switches
from framebench.adapters.batch_norm import frozen_statistics
from framebench.adapters.jittor.adapter import JittorAdapter, trainable
from framebench.adapters.proof import Evidence, Proof, above, check, expect

switch = Switches()


@contextmanager
def drawing(draw: Any) -> Iterator[None]:
    """Have every random variable come from `draw`: all of Jittor's random functions call `jt.random`."""
    original, jt.random = jt.random, draw
    try:
        yield
    finally:
        jt.random = original


class Checkpoint(jt.Function):
    """Runs a block without keeping what is inside it, and once more when the gradient arrives.

    To `jt.grad` a Function is one operator, so the block's parameters are arguments too, or they would get no gradient. Random
    numbers are drawn when the graph runs, in an order that nobody knows, so a seed could not bring them back: they are kept.
    """

    def __init__(self, block: Module, activations: int) -> None:
        self.block = block
        self.activations = activations  # so many arguments are activations; the others are the block's parameters
        self.drawn: list[Var] = []

    def execute(self, *args: Var) -> Var:
        self.kept = [x.detach() for x in args[: self.activations]]
        random = jt.random

        def keep(*args: Any, **options: Any) -> Var:
            self.drawn.append(random(*args, **options))
            return self.drawn[-1]

        with jt.no_grad(), drawing(keep):
            return self.block(*self.kept)

    def grad(self, upstream: Var) -> list[Var]:
        inputs = [x.detach().start_grad() for x in self.kept]
        again = iter(self.drawn)
        with frozen_statistics(_batch_norms(self.block)), drawing(lambda *_, **__: next(again)):
            output = self.block(*inputs)
        # The derivative of sum(output * upstream) is the vector-Jacobian product. Being lazy, Jittor never computes the sum.
        grads = jt.grad(output * upstream.stop_grad(), inputs + trainable(self.block), retain_graph=False)
        return [g.stop_grad() for g in grads]


def _batch_norms(block: Module) -> list[nn.BatchNorm]:
    return [m for m in block.modules() if isinstance(m, nn.BatchNorm)]


def checkpointed(block: Module, *activations: Var) -> Var:
    return Checkpoint(block, len(activations))(*activations, *trainable(block))


@switch
def checkpoint(run: JittorAdapter, every: int = 1) -> Proof:
    chosen: list[Module] = []

    def attach(model: Module) -> None:
        chosen[:] = run.model_module.blocks_of(model)[::every]
        places = {id(block) for block in chosen}

        def remat(block: Module, *xs: Any, **named: Any) -> Any:
            """Checkpoint a block, unless something is given by keyword, which no Function takes."""
            return checkpointed(block, *xs) if id(block) in places and not named else Module.__call__(block, *xs, **named)

        model.remat = remat

    def count_recomputed(_: Evidence) -> Evidence:
        # a block below every trained weight has nothing to recompute for
        return {"blocks_recomputed": sum(bool(trainable(block)) for block in chosen)}

    def each_block_ran_again(e: Evidence) -> bool:
        return bool(e["block_runs"] == run.micro_batches * (e["blocks"] + e["blocks_recomputed"]))

    run.recipe.on_model.append(attach)
    proof = expect(blocks_recomputed=above(0))
    proof &= check(each_block_ran_again, "a step computes each of the blocks_recomputed once more")
    return proof.counting(count_recomputed)
