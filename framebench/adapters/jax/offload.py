"""How JAX switches on the strategies of `framebench/strategies/offload.py`, and their proofs."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import optax
from flax import nnx
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import Sharding

from framebench.adapters.base import Switches
from framebench.adapters.jax.adapter import JaxAdapter, Tree
from framebench.adapters.jax.checkpoint import can_stack_layers, checkpoint_blocks
from framebench.adapters.jax.program import walk_equations
from framebench.adapters.proof import Evidence, Proof, above, check, equal_to, expect
from framebench.models.flax_blocks import Run

switch = Switches()
HOST = "pinned_host"


def name_inputs(block: Run) -> Run:
    """Return the block with its inputs named, so that a policy of jax.checkpoint finds them."""

    def run_block(module: nnx.Module, *xs: Any) -> Any:
        named = [checkpoint_name(x, "input") for x in xs]
        return block(module, *named)

    return run_block


@switch
def offload(run: JaxAdapter) -> Proof:
    """Have each block's input wait in host memory, and recompute the rest of the block.

    XLA:CPU drops the copies: its host memory and its device's are the same.
    """
    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=["input"],
        offload_src="device",
        offload_dst=HOST,
    )
    checkpoint_blocks(run, 1, can_stack_layers(run), policy=policy)
    checkpoint_block = run.recipe.model_options["remat"]
    # layers that run the same function stay layers that run the same function
    name_inputs_once = cache(name_inputs)

    def remat(i: int, block: Run) -> Run:
        return checkpoint_block(i, name_inputs_once(block))

    run.recipe.model_options["remat"] = remat

    def count_bytes(_: Evidence) -> Evidence:
        to_host = 0
        for equation in walk_equations(*run.list_jaxprs()):
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

    As in https://docs.jax.dev/en/latest/notebooks/host-offloading.html. XLA:CPU drops the copies:
    its host memory and its device's are the same.
    """
    device = run.make_sharding()
    host = run.make_sharding(HOST)

    def keep_state_on_host(inner: optax.GradientTransformation) -> optax.GradientTransformation:
        def update(updates: Tree, state: Tree, params: Tree | None = None) -> tuple[Tree, Tree]:
            state_on_device = jax.device_put(state, device)
            updates, state = inner.update(updates, state_on_device, params)
            return updates, jax.device_put(state, host)

        return inner._replace(update=update)

    def choose_memory(what: str, shape: tuple[int, ...]) -> Sharding:
        return host if what == "state" else device

    run.recipe.wrap("optimizer", keep_state_on_host)
    run.recipe.sharding = choose_memory

    def count_bytes(_: Evidence) -> Evidence:
        states = [a for a in jax.tree.leaves(run.optimizer_state) if a.ndim]
        on_host = [a for a in states if a.sharding.memory_kind == HOST]
        plans = [compiled.memory_analysis() for compiled in run.program.compiled.values()]
        return {
            "state_bytes": sum(a.nbytes for a in states),
            "state_bytes_on_host": sum(a.nbytes for a in on_host),
            "planned_on_host": max((plan.host_argument_size_in_bytes for plan in plans), default=0),
        }

    def is_planned(evidence: Evidence) -> bool:
        # an eager step has no plan
        return bool(run.recipe.eager or evidence["planned_on_host"] >= evidence["state_bytes"])

    proof = expect(state_bytes=above(0), state_bytes_on_host=equal_to("state_bytes"))
    proof &= check(is_planned, "the executable takes the whole state from host memory")
    return proof.counting(count_bytes)
