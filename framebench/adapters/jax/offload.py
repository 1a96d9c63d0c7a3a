"""How JAX switches on the strategies of `framebench/strategies/offload.py`, and what proves that they were on."""

from __future__ import annotations

from functools import cache

import jax
import optax
from jax.ad_checkpoint import checkpoint_name

from framebench.adapters.base import Switches
from framebench.adapters.jax.adapter import JaxAdapter, Tree
from framebench.adapters.jax.checkpoint import recomputed, scannable
from framebench.adapters.jax.program import equations
from framebench.adapters.proof import Evidence, Proof, above, check, equal_to, expect

switch = Switches()
HOST = "pinned_host"


@switch
def offload(run: JaxAdapter) -> Proof:
    """Have each block's input wait in host memory, and recompute the rest of the block.

    XLA:CPU drops the copies: its host memory and its device's are the same.
    """
    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[], names_which_can_be_offloaded=["input"], offload_src="device", offload_dst=HOST
    )
    recomputed(run, 1, scannable(run), policy=policy)
    remat = run.recipe.model_options["remat"]
    named = cache(lambda block: lambda self, *xs: block(self, *(checkpoint_name(x, "input") for x in xs)))
    run.recipe.model_options["remat"] = lambda i, block: remat(i, named(block))

    def count_bytes(_: Evidence) -> Evidence:
        to_host = 0
        for jaxpr in run.jaxprs():
            for equation in equations(jaxpr):
                if equation.primitive.name == "device_put":
                    moved = [variable.aval for variable in equation.outvars]
                    to_host += sum(a.size * a.dtype.itemsize for a in moved if "<host>" in str(a))
        plans = [compiled.memory_analysis() for compiled in run.program.compiled.values()]
        planned = sum(plan.host_temp_size_in_bytes for plan in plans)
        return {"bytes_to_host": to_host, "compiled_host_bytes": planned}

    return expect(bytes_to_host=above(0), compiled_host_bytes=above(0)).counting(count_bytes)


@switch
def optimizer_offload(run: JaxAdapter) -> Proof:
    """Keep the optimizer's state in host memory.

    As in https://docs.jax.dev/en/latest/notebooks/host-offloading.html. XLA:CPU drops the copies: its host memory and its
    device's are the same.
    """
    here, host = run.place(), run.place(HOST)

    def offloaded(inner: optax.GradientTransformation) -> optax.GradientTransformation:
        def moved(updates: Tree, state: Tree, params: Tree | None = None) -> tuple[Tree, Tree]:
            updates, state = inner.update(updates, jax.device_put(state, here), params)
            return updates, jax.device_put(state, host)

        return inner._replace(update=moved)

    run.recipe.wrap("optimizer", offloaded)
    run.recipe.sharding = lambda what, shape: host if what == "state" else here

    def count_bytes(_: Evidence) -> Evidence:
        states = [a for a in jax.tree.leaves(run.optimizer_state) if a.ndim]
        plans = [compiled.memory_analysis() for compiled in run.program.compiled.values()]
        return {
            "state_bytes": sum(a.nbytes for a in states),
            "state_bytes_on_host": sum(a.nbytes for a in states if a.sharding.memory_kind == HOST),
            "planned_on_host": max((plan.host_argument_size_in_bytes for plan in plans), default=0),
        }

    def is_planned(e: Evidence) -> bool:
        # an eager step has no plan
        return bool(run.recipe.eager or e["planned_on_host"] >= e["state_bytes"])

    proof = expect(state_bytes=above(0), state_bytes_on_host=equal_to("state_bytes"))
    proof &= check(is_planned, "the executable takes the whole state from host memory")
    return proof.counting(count_bytes)
