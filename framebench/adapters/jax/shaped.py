"""The adapter's own step without a number in it: weights, states and batches by shape, type and place alone. So any size can be
compiled on any machine, for devices that need not be there."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import jax
from jax import ShapeDtypeStruct
from jax.sharding import Sharding

from framebench.adapters.base import Batch
from framebench.adapters.jax import switches_of
from framebench.adapters.jax.accumulation import Tree
from framebench.adapters.jax.adapter import JaxAdapter, Split
from framebench.suite.case import Case


class ShapedAdapter(JaxAdapter):
    """For these devices, as many as the case has ranks; by default for those that are here."""

    def __init__(self, case: Case, devices: list[jax.Device] | None = None) -> None:
        super().__init__(case, switches_of(case))
        self.declared = devices

    @property
    def platform(self) -> str:
        return self.devices[0].platform

    @property
    def devices(self) -> list[jax.Device]:
        return super().devices if self.declared is None else self.declared[: self.case.ranks]

    def initial(self, config: Any, training: bool) -> Split:
        return self.split(self.abstract(config, training))

    def first_state(self) -> Tree:
        return self.placed("state", jax.eval_shape(self.recipe.optimizer.init, self.params))

    def place(self, memory: str | None = None) -> Any:
        """Devices that are only declared have no memories to name: the host's is meant whatever it is called."""
        return super().place() if memory is None else jax.memory.Space.Host

    def placed(self, what: str, tree: Tree) -> Tree:
        where = self.recipe.sharding or (lambda *_: self.place())

        def shape(a: Any) -> ShapeDtypeStruct:
            place = where(what, a.shape)
            # an argument cannot be declared to lie in the host's memory: it does if it is written over by a result that does
            return ShapeDtypeStruct(a.shape, a.dtype, sharding=place if isinstance(place, Sharding) else self.place())

        return jax.tree.map(shape, tree)

    def constrained(self, what: str, tree: Tree) -> Tree:
        if self.recipe.sharding is None or isinstance(self.recipe.sharding(what, ()), Sharding):
            return super().constrained(what, tree)
        return jax.device_put(tree, jax.memory.Space.Host)

    def batches(self) -> Iterator[Batch]:
        """Of each call, as many as the step has."""
        calls = self.recipe.calls
        return (jax.tree.map(lambda a: a.update(shape=(a.shape[0] // calls, *a.shape[1:])), self.inputs) for _ in range(calls))

    def compile(self) -> None:
        """The step's program, of a part of the batch where it has several calls."""
        whole = self.inputs
        self.inputs = next(self.batches())
        self.program.prepare(*self.arguments())
        self.inputs = whole

    def beside(self) -> int:
        """Bytes on one device that are alive during the step but not in its plan: what of the batch the program is not given.
        Where the step has several calls, the batch and its parts."""
        if self.recipe.calls > 1:
            return bytes_of_one(self.inputs) + (self.recipe.calls - 1) * bytes_of_one(next(self.batches()))
        given = {id(a) for a in jax.tree.leaves(self.arguments())}
        return bytes_of_one([a for a in jax.tree.leaves(self.inputs) if id(a) not in given])


def bytes_of_one(tree: Tree) -> int:
    """Of the arrays' parts on one device."""
    shapes = [(a.sharding.shard_shape(a.shape), a.dtype.itemsize) for a in jax.tree.leaves(tree)]
    return sum(math.prod(shape) * width for shape, width in shapes)
