"""How JAX switches on the strategies of `suite/catalog/offload.py`, and what proves that they were on."""

from __future__ import annotations

from functools import cache

import jax
import optax
from jax.ad_checkpoint import checkpoint_name

from framebench.adapters.base import Evidence, Proof, Switches
from framebench.adapters.jax.adapter import JaxAdapter, Tree
from framebench.adapters.jax.checkpoint import recomputed, scannable
from framebench.adapters.jax.program import equations

switch = Switches()
HOST = "pinned_host"


@switch
def offload(run: JaxAdapter) -> Proof:
    """Each block's input waits in host memory, the rest of the block is recomputed."""
    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[], names_which_can_be_offloaded=["input"], offload_src="device", offload_dst=HOST
    )
    recomputed(run, 1, scannable(run), policy=policy)
    remat = run.recipe.model_options["remat"]
    named = cache(lambda block: lambda self, *xs: block(self, *(checkpoint_name(x, "input") for x in xs)))
    run.recipe.model_options["remat"] = lambda i, block: remat(i, named(block))

    def proof(e: Evidence) -> bool:
        """XLA:CPU drops the copies: its host memory and its device's are the same."""
        moved = [v.aval for q in run.jaxprs() for eq in equations(q) if eq.primitive.name == "device_put" for v in eq.outvars]
        e["bytes_to_host"] = sum(a.size * a.dtype.itemsize for a in moved if "<host>" in str(a))
        e["compiled_host_bytes"] = sum(c.memory_analysis().host_temp_size_in_bytes for c in run.program.compiled.values())
        return e["bytes_to_host"] > 0 and e["compiled_host_bytes"] > 0

    return proof


@switch
def optimizer_offload(run: JaxAdapter) -> Proof:
    """https://docs.jax.dev/en/latest/notebooks/host-offloading.html"""
    here, host = run.place(), run.place(HOST)

    def offloaded(inner: optax.GradientTransformation) -> optax.GradientTransformation:
        def moved(updates: Tree, state: Tree, params: Tree | None = None) -> tuple[Tree, Tree]:
            updates, state = inner.update(updates, jax.device_put(state, here), params)
            return updates, jax.device_put(state, host)

        return inner._replace(update=moved)

    run.recipe.wrap("optimizer", offloaded)
    run.recipe.sharding = lambda what, shape: host if what == "state" else here

    def proof(e: Evidence) -> bool:
        """XLA:CPU drops the copies: its host memory and its device's are the same."""
        states = [a for a in jax.tree.leaves(run.optimizer_state) if a.ndim]
        e["state_bytes"] = sum(a.nbytes for a in states)
        e["state_bytes_on_host"] = sum(a.nbytes for a in states if a.sharding.memory_kind == HOST)
        plans = [c.memory_analysis() for c in run.program.compiled.values()]
        e["planned_on_host"] = max((m.host_argument_size_in_bytes for m in plans), default=0)
        planned = run.recipe.eager or e["planned_on_host"] >= e["state_bytes"]  # an eager step has no plan
        return planned and e["state_bytes"] == e["state_bytes_on_host"] > 0

    return proof
