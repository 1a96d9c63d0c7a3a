"""How JAX switches on the strategies of `suite/catalog/memory.py`, and what proves that they were on."""

from __future__ import annotations

import gc
import subprocess
from collections import Counter
from dataclasses import replace

import jax
import jax.numpy as jnp

from framebench.adapters.base import Evidence, Proof, Switches
from framebench.adapters.jax.adapter import JaxAdapter, make_optimizer
from framebench.strategies.strategy import IncompatibleStrategies

switch = Switches()


@switch
def no_donate(run: JaxAdapter) -> Proof:
    """The arrays that went in are still there after the step, and the executable writes none of its results over them."""
    run.recipe.jit_options["donate_argnums"] = ()
    return lambda e: e["arguments_deleted"] == 0 == e["aliased_bytes"]


@switch
def mu_bf16(run: JaxAdapter) -> Proof:
    """The update is computed from the moment before it is rounded."""
    if "first moment" not in run.case.optimizer.states:
        raise IncompatibleStrategies(f"mu_bf16 does not combine with {run.case.optimizer.name}, which keeps no first moment")
    run.recipe.optimizer = make_optimizer(run.case.optimizer, mu_dtype=jnp.bfloat16)

    def proof(e: Evidence) -> bool:
        moments = Counter((state.kind, str(state.array.dtype)) for state in run.states())
        e["moments"] = {f"{kind}, {dtype}": n for (kind, dtype), n in moments.items()}
        wanted = {("first moment", "bfloat16"), ("second moment", "float32")}
        computed = set(e["compiled_operands"]) | set(e["weight_dtypes"])
        return moments.keys() == wanted and computed == {"float32"}

    return proof


@switch
def after_training(run: JaxAdapter, cleared: bool) -> Proof:
    """Nothing refers to what has trained; cleared, the collector runs as well, and JAX drops its caches."""
    seen: Evidence = {}

    def train() -> None:
        callbacks = list(gc.callbacks)  # a new adapter takes the place of the old one there
        trainer = JaxAdapter(replace(run.case, scenario="train", strategy="fp32"), run.switches)
        trainer.float64 = run.float64
        trainer.build()
        trainer.step()
        trainer.synchronize()
        gc.callbacks[:] = callbacks
        seen.update(trained_steps=trainer.steps, training_loss=trainer.loss())
        vars(trainer).clear()  # it refers to itself, as a script's own variables do not
        del trainer
        before = run.collections["generation 2"]
        if cleared:
            gc.collect()
            jax.clear_caches()
        seen["full_collections"] = run.collections["generation 2"] - before
        seen["bytes_held_before_evaluation"] = run.live_bytes()

    run.before_first_step.append(train)

    def proof(e: Evidence) -> bool:
        e |= seen
        return e["trained_steps"] == 1 and (e["full_collections"] > 0) == cleared

    return proof


# the allocator of a GPU, set by environment variables before JAX is imported


@switch
def pool_off(run: JaxAdapter) -> Proof:
    """XLA counts what its pools do, and nothing of an allocator without one."""

    def proof(e: Evidence) -> bool:
        e["counted_of_a_pool"] = run.statistics()
        return run.platform == "gpu" and not e["counted_of_a_pool"]

    return proof


@switch
def malloc_async(run: JaxAdapter) -> Proof:
    """Allocations are counted, but no bytes of a pool: that is the driver's, where XLA would have one of its own."""

    def proof(e: Evidence) -> bool:
        e["counted"] = run.statistics()
        return run.platform == "gpu" and e["counted"].get("num_allocs", 0) > 0 and "pool_bytes" not in e["counted"]

    return proof


@switch
def memory_fraction(run: JaxAdapter) -> Proof:
    def proof(e: Evidence) -> bool:
        ask = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
        total = int(subprocess.run(ask, capture_output=True, text=True, check=True).stdout.split()[0]) * 2**20
        e["limit"], e["card"] = run.statistics().get("bytes_limit", 0), total
        return 0.76 < e["limit"] / total <= 0.81  # 0.75 without the setting

    return proof


@switch
def preallocate(run: JaxAdapter) -> Proof:
    reserved: list[int] = []
    run.before_first_step.append(lambda: reserved.append(run.statistics().get("pool_bytes", 0)))

    def proof(e: Evidence) -> bool:
        e["reserved_before"], e["limit"] = reserved[0], run.statistics().get("bytes_limit", 0)
        return 2 * e["reserved_before"] > e["limit"] > 0

    return proof
