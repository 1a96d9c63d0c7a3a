"""Compile the adapter's step with shapes in the place of arrays.

Weights, states and batches have only a shape, a type and a place. A step of any size can then be
compiled on any machine, for devices that the machine does not have.
"""

from __future__ import annotations

import math
from typing import Any

import jax
from jax import ShapeDtypeStruct
from jax.sharding import Sharding

from framebench.adapters import find_switches
from framebench.adapters.base import Batch
from framebench.adapters.jax.accumulation import Tree
from framebench.adapters.jax.adapter import JaxAdapter, ModelParts
from framebench.suite.case import Case


class ShapedAdapter(JaxAdapter):
    """A case that is compiled and never run, for declared devices or those of this machine."""

    def __init__(self, case: Case, devices: list[jax.Device] | None = None) -> None:
        """Prepare a case for compilation.

        Args:
            case: What to compile.
            devices: The devices to compile for, at least one for each rank; this machine need not
                have them. None takes the devices of this machine.
        """
        super().__init__(case, find_switches(case))
        self.declared = devices

    @property
    def platform(self) -> str:
        return self.devices[0].platform

    @property
    def devices(self) -> list[jax.Device]:
        if self.declared is None:
            return super().devices
        return self.declared[: self.case.ranks]

    def load_canonical(self, config: Any, training: bool) -> ModelParts:
        return self.take_apart(self.make_abstract(config, training))

    def init_optimizer_state(self) -> Tree:
        return self.place("state", jax.eval_shape(self.recipe.optimizer.init, self.params))

    def make_sharding(self, memory: str | None = None) -> Any:
        if memory is None:
            return super().make_sharding()
        # declared devices have no named memories, and a case names no other than the host's
        return jax.memory.Space.Host

    def place(self, kind: str, tree: Tree) -> Tree:
        def place_shape(array: Any) -> ShapeDtypeStruct:
            """Return the array's shape and type, placed by the strategy."""
            sharding = None
            if self.recipe.sharding is not None:
                sharding = self.recipe.sharding(kind, array.shape)
            # An argument cannot be declared to lie in host memory, which is no sharding here. It
            # lies there if the result that is written over it does.
            if not isinstance(sharding, Sharding):
                sharding = self.make_sharding()
            return ShapeDtypeStruct(array.shape, array.dtype, sharding=sharding)

        return jax.tree.map(place_shape, tree)

    def constrain(self, kind: str, tree: Tree) -> Tree:
        sharding = self.recipe.sharding
        if sharding is None or isinstance(sharding(kind, ()), Sharding):
            return super().constrain(kind, tree)
        return jax.device_put(tree, jax.memory.Space.Host)

    def cut_batch(self, batch: Batch, parts: int) -> list[Batch]:
        def take_part(array: ShapeDtypeStruct) -> ShapeDtypeStruct:
            return array.update(shape=(array.shape[0] // parts, *array.shape[1:]))

        return [jax.tree.map(take_part, batch)] * parts

    def compile(self) -> None:
        # a step of several calls is compiled for a part of the batch
        whole_batch = self.inputs
        self.inputs, *_ = self.cut_batch(whole_batch, self.recipe.calls)
        try:
            self.program.prepare(*self.list_arguments())
        finally:
            self.inputs = whole_batch

    def count_unplanned_bytes(self) -> int:
        """Return the bytes on one device that are alive during the step but not in its plan.

        In a step of one call these are the inputs that the program does not take. In a step of
        several calls they are the batch and its parts.
        """
        if self.recipe.calls > 1:
            _, *others = self.cut_batch(self.inputs, self.recipe.calls)
            return count_bytes_of_one((self.inputs, others))
        argument_ids = set(map(id, jax.tree.leaves(self.list_arguments())))
        unused = []
        for array in jax.tree.leaves(self.inputs):
            if id(array) not in argument_ids:
                unused.append(array)
        return count_bytes_of_one(unused)


def count_bytes_of_one(tree: Tree) -> int:
    """Return the bytes of these arrays on one device."""
    total = 0
    for array in jax.tree.leaves(tree):
        total += math.prod(array.sharding.shard_shape(array.shape)) * array.dtype.itemsize
    return total
