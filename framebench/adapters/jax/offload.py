"""How JAX switches on the strategies of `framebench/strategies/offload.toml`, and their proofs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import jax
import optax
from flax import nnx
from jax.ad_checkpoint import checkpoint_name
from jax.extend.core import ClosedJaxpr
from jax.sharding import Sharding

from framebench.adapters.base import Switches
from framebench.adapters.jax.adapter import JaxAdapter, Tree
from framebench.adapters.jax.checkpoint import checkpoint_blocks
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
def offload(adapter: JaxAdapter) -> Proof:
    """Keep each block's input in host memory, and recompute the rest of the block.

    XLA:CPU drops the copies, since host and device have the same memory.
    """
    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=["input"],
        offload_src="device",
        offload_dst=HOST,
    )
    checkpoint_blocks(adapter, policy=policy)
    # `checkpoint_blocks` has set it: the function that makes block i recompute
    checkpoint_block = adapter.recipe.model_options["remat"]
    # cached, so that layers with the same function still have the same function
    name_inputs_once = cache(name_inputs)

    def remat(i: int, block: Run) -> Run:
        return checkpoint_block(i, name_inputs_once(block))

    adapter.recipe.model_options["remat"] = remat

    def count_bytes() -> Evidence:
        plans = adapter.program.list_plans()
        return {
            "bytes_to_host": count_bytes_to_host(adapter.list_jaxprs()),
            "compiled_host_bytes": sum(plan.host_temp_size_in_bytes for plan in plans),
        }

    return expect(bytes_to_host=above(0), compiled_host_bytes=above(0)).counting(count_bytes)


def count_bytes_to_host(jaxprs: Iterable[ClosedJaxpr]) -> int:
    """Return the bytes that the traced step copies to host memory."""
    size = 0
    for equation in walk_equations(*jaxprs):
        if equation.primitive.name != "device_put":
            continue
        for variable in equation.outvars:
            array = variable.aval
            if "<host>" in str(array):
                size += array.size * array.dtype.itemsize
    return size


@switch
def optimizer_offload(adapter: JaxAdapter) -> Proof:
    """Keep the optimizer's state in host memory.

    See https://docs.jax.dev/en/latest/notebooks/host-offloading.html. XLA:CPU removes the copies,
    since host and device have the same memory.
    """
    device = adapter.make_sharding()
    host = adapter.make_sharding(HOST)

    def keep_state_on_host(inner: optax.GradientTransformation) -> optax.GradientTransformation:
        def update(updates: Tree, state: Tree, params: Tree | None = None) -> tuple[Tree, Tree]:
            state_on_device = jax.device_put(state, device)
            updates, state = inner.update(updates, state_on_device, params)
            return updates, jax.device_put(state, host)

        return inner._replace(update=update)

    def choose_memory(kind: str, shape: tuple[int, ...]) -> Sharding:
        return host if kind == "state" else device

    adapter.recipe.wrap("optimizer", keep_state_on_host)
    adapter.recipe.sharding = choose_memory

    def count_state_bytes() -> Evidence:
        """Count the bytes of the optimizer's state: all, those on the host, and those planned."""
        size = on_host = 0
        for array in jax.tree.leaves(adapter.optimizer_state):
            if array.ndim == 0:  # a count of steps stays on the device
                continue
            size += array.nbytes
            if array.sharding.memory_kind == HOST:
                on_host += array.nbytes
        plans = adapter.program.list_plans()
        return {
            "state_bytes": size,
            "state_bytes_on_host": on_host,
            "planned_on_host": [plan.host_argument_size_in_bytes for plan in plans],
        }

    def is_planned(evidence: Evidence) -> bool:
        # an eager step has no plan
        return all(size >= evidence["state_bytes"] for size in evidence["planned_on_host"])

    proof = expect(state_bytes=above(0), state_bytes_on_host=equal_to("state_bytes"))
    proof &= check(is_planned, "the executable takes the whole state from host memory")
    return proof.counting(count_state_bytes)
