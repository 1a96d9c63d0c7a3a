"""Activation checkpointing for Jittor, which has none (Chen et al. 2016)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jittor as jt
from jittor import Module, Var, nn


def trainable(module: Module) -> list[Var]:
    """Jittor counts running statistics among the parameters, with their gradient stopped."""
    return [p for p in module.parameters() if not p.is_stop_grad()]


@contextmanager
def frozen_statistics(block: Module) -> Iterator[None]:
    """Batch norm still normalises by its batch, but its running statistics stay as they are."""
    norms = [m for m in block.modules() if isinstance(m, nn.BatchNorm)]
    momenta = [m.momentum for m in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in zip(norms, momenta):
            norm.momentum = momentum


@contextmanager
def drawing(draw: Any) -> Iterator[None]:
    """Every random variable comes from `draw`; all of Jittor's random functions call `jt.random`."""
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
        with frozen_statistics(self.block), drawing(lambda *_, **__: next(again)):  # they were updated by the first execution
            output = self.block(*inputs)
        # The derivative of sum(output * upstream) is the vector-Jacobian product. Being lazy, Jittor never computes the sum.
        grads = jt.grad(output * upstream.stop_grad(), inputs + trainable(self.block), retain_graph=False)
        return [g.stop_grad() for g in grads]


def checkpointed(block: Module, *activations: Var) -> Var:
    return Checkpoint(block, len(activations))(*activations, *trainable(block))
