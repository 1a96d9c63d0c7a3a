"""The peak of one device, however many there are, without running: XLA's plan of the step, divided over devices that are only
declared. Every device runs the same program, and has the same plan."""

from __future__ import annotations

import math
from importlib.metadata import version
from typing import Any

import jax
from jax import ShapeDtypeStruct

from framebench.adapters.jax import SWITCHES
from framebench.adapters.jax.adapter import JaxAdapter, Tree
from framebench.adapters.jax.program import plan_bytes
from framebench.suite.case import Case


class Gone(Exception):
    """This JAX lacks what a prediction over ranks needs; the message says what."""


class Planned(JaxAdapter):
    """Weights, states and batches by shape, type and place alone."""

    def make(self) -> None:
        parts = self.split(self.abstract(self.config, self.recipe.training))
        state = jax.eval_shape(self.recipe.optimizer.init, parts.params) if self.case.stage.trains else ()
        self.params, self.stats = self.placed("params", parts.params), self.placed("stats", parts.stats)
        self.constants["frozen"] = self.placed("frozen", parts.frozen)
        self.optimizer_state = self.placed("state", state)
        self.inputs = self.put(*self.workload.batch(self.config, self.case.batch))
        self.program = self.programmed(parts.graph)

    def placed(self, what: str, tree: Tree) -> Tree:
        where = self.recipe.sharding
        assert where
        return jax.tree.map(lambda a: ShapeDtypeStruct(a.shape, a.dtype, sharding=where(what, a.shape)), tree)


def predict(case: Case) -> dict[str, Any]:
    """Of a steady step: bytes of one device by XLA's plan, and their parts."""
    try:
        jax.config.update("jax_num_cpu_devices", case.ranks)
        jax.config.update("jax_platforms", "cpu")
    except AttributeError as error:
        raise Gone(f"JAX {version('jax')} has no option jax_num_cpu_devices") from error
    adapter = Planned(case, SWITCHES)
    adapter.build()
    arguments = adapter.arguments()
    adapter.program.prepare(*arguments)
    (compiled,) = adapter.program.compiled.values()
    return {
        "rank": 0, "peak_bytes": plan_bytes(compiled), "parts": parts(adapter, compiled), "versions": versions(),
        "note": "the plan of XLA:CPU, which a GPU's need not resemble",
    }  # fmt: skip


def parts(adapter: Planned, compiled: Any) -> dict[str, int]:
    """What one device is given, and what the plan has besides."""
    held = {
        "parameters": _bytes_of_one(adapter.params),
        "optimizer states": _bytes_of_one(adapter.optimizer_state),
        "inputs": _bytes_of_one(adapter.inputs),
        "other arguments": _bytes_of_one((adapter.stats, adapter.constants)),
    }
    plan = compiled.memory_analysis()
    made = {"temporaries": plan.temp_size_in_bytes, "new outputs": plan.output_size_in_bytes - plan.alias_size_in_bytes}
    # arguments that the step does not read are not passed, and each may be padded
    made["padding"] = plan.argument_size_in_bytes - sum(held.values())
    return {name: size for name, size in (held | made).items() if size}


def _bytes_of_one(tree: Tree) -> int:
    """Of the arrays' parts on one device."""
    shapes = [(a.sharding.shard_shape(a.shape), a.dtype.itemsize) for a in jax.tree.leaves(tree)]
    return sum(math.prod(shape) * width for shape, width in shapes)


def versions() -> dict[str, str]:
    return {name: version(name) for name in ("jax", "jaxlib", "flax", "optax")}
