"""How JAX switches on the strategies of `framebench/strategies/memory.py`, and what proves that they were on."""

from __future__ import annotations

import gc
import subprocess
from collections import Counter
from dataclasses import replace

import jax
import jax.numpy as jnp

from framebench.adapters.base import Switches
from framebench.adapters.jax.adapter import JaxAdapter, make_optimizer
from framebench.adapters.proof import Evidence, Proof, above, at_most, below, check, expect, none_but, only
from framebench.strategies.strategy import IncompatibleStrategies

switch = Switches()


@switch
def no_donate(run: JaxAdapter) -> Proof:
    """Keep the arrays that go into a step: its executable writes none of its results over them."""
    run.recipe.jit_options["donate_argnums"] = ()
    return expect(arguments_deleted=0, aliased_bytes=0)


@switch
def mu_bf16(run: JaxAdapter) -> Proof:
    """Keep the first moment in bfloat16. The update is computed from it before it is rounded."""
    if "first moment" not in run.case.optimizer.states:
        raise IncompatibleStrategies(f"mu_bf16 does not combine with {run.case.optimizer.name}, which keeps no first moment")
    run.recipe.optimizer = make_optimizer(run.case.optimizer, mu_dtype=jnp.bfloat16)

    def count_moments(_: Evidence) -> Evidence:
        return {"moments": dict(Counter(f"{s.kind}, {s.array.dtype}" for s in run.states()))}

    proof = expect(
        moments=only("first moment, bfloat16", "second moment, float32"),
        compiled_operands=none_but("float32"),  # an eager step leaves none
        weight_dtypes=only("float32"),
    )
    return proof.counting(count_moments)


@switch
def after_training(run: JaxAdapter, cleared: bool) -> Proof:
    """Train another model for one step first, and drop all that refers to it.

    Cleared, the collector runs as well, and JAX drops its caches.
    """
    training: Evidence = {}

    def train() -> None:
        callbacks = list(gc.callbacks)  # a new adapter takes the place of the old one there
        trainer = JaxAdapter(replace(run.case, scenario="train", strategy="fp32"), run.switches)
        trainer.float64 = run.float64
        trainer.build()
        trainer.step()
        trainer.synchronize()
        gc.callbacks[:] = callbacks
        training.update(trained_steps=trainer.steps, training_loss=trainer.loss())
        vars(trainer).clear()  # it refers to itself, as a script's own variables do not
        del trainer
        before = run.collections["generation 2"]
        if cleared:
            gc.collect()
            jax.clear_caches()
        training["full_collections"] = run.collections["generation 2"] - before
        training["bytes_held_before_evaluation"] = run.live_bytes()

    run.before_first_step.append(train)
    proof = expect(trained_steps=1, full_collections=above(0) if cleared else at_most(0))
    return proof.counting(lambda _: training)


# the allocator of a GPU, set by environment variables before JAX is imported


@switch
def pool_off(run: JaxAdapter) -> Proof:
    """Prove that XLA counts nothing: it counts what its pools do, and nothing of an allocator without one."""

    def read_statistics(_: Evidence) -> Evidence:
        return {"counted_of_a_pool": run.statistics(), "platform": run.platform}

    return expect(platform="gpu", counted_of_a_pool={}).counting(read_statistics)


@switch
def malloc_async(run: JaxAdapter) -> Proof:
    """Prove that allocations are counted, but no bytes of a pool, which is the driver's here and would be XLA's."""

    def read_statistics(_: Evidence) -> Evidence:
        return {"counted": run.statistics(), "platform": run.platform}

    def has_no_pool(e: Evidence) -> bool:
        return "pool_bytes" not in e["counted"]

    proof = expect({"platform": "gpu", "counted.num_allocs": above(0)})
    proof &= check(has_no_pool, "XLA counts no bytes of a pool")
    return proof.counting(read_statistics)


@switch
def memory_fraction(run: JaxAdapter) -> Proof:
    """Prove that XLA may take 0.8 of the GPU's memory; without the setting it is 0.75."""

    def read_limit(_: Evidence) -> Evidence:
        ask = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
        answer = subprocess.run(ask, capture_output=True, text=True, check=True).stdout
        return {
            "limit": run.statistics().get("bytes_limit", 0),
            "card": int(answer.split()[0]) * 2**20,
        }

    proof = expect(limit=(above("card", times=0.76), at_most("card", times=0.81)))
    return proof.counting(read_limit)


@switch
def preallocate(run: JaxAdapter) -> Proof:
    """Prove that XLA takes more than half of what it may before the first step."""
    reserved: list[int] = []
    run.before_first_step.append(lambda: reserved.append(run.statistics().get("pool_bytes", 0)))

    def read_reserved(_: Evidence) -> Evidence:
        limit = run.statistics().get("bytes_limit", 0)
        return {"reserved_before": reserved[0], "limit": limit}

    proof = expect(limit=(above(0), below("reserved_before", times=2)))
    return proof.counting(read_reserved)
