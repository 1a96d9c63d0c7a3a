"""How JAX switches on the strategies of `framebench/strategies/memory.toml`, and their proofs."""

from __future__ import annotations

import gc
from collections import Counter
from dataclasses import replace

import jax
import jax.numpy as jnp

from framebench.adapters.base import Switches
from framebench.adapters.jax.adapter import JaxAdapter, make_optimizer
from framebench.adapters.proof import (
    Evidence,
    Proof,
    above,
    at_most,
    below,
    expect,
    none_but,
    only,
)
from framebench.instruments import limits
from framebench.strategies.strategy import IncompatibleStrategies

switch = Switches()


@switch
def no_donate(adapter: JaxAdapter) -> Proof:
    """Compile the step without donation: its results are not written over its arguments."""
    adapter.recipe.jit_options["donate_argnums"] = ()
    return expect(arguments_deleted=0, aliased_bytes=0)


@switch
def mu_bf16(adapter: JaxAdapter) -> Proof:
    """Keep the first moment in bfloat16; the update is computed before the moment is rounded.

    Raises IncompatibleStrategies for an optimizer without a first moment.
    """
    optimizer = adapter.case.optimizer
    if "first moment" not in optimizer.states:
        raise IncompatibleStrategies(
            f"mu_bf16 does not combine with {optimizer.name}, which keeps no first moment"
        )
    adapter.recipe.optimizer = make_optimizer(optimizer, mu_dtype=jnp.bfloat16)

    def count_moments() -> Evidence:
        kinds = [f"{state.kind}, {state.array.dtype}" for state in adapter.states()]
        return {"moments": dict(Counter(kinds))}

    proof = expect(
        moments=only("first moment, bfloat16", "second moment, float32"),
        compiled_operands=none_but("float32"),  # an eager step leaves none
        weight_dtypes=only("float32"),
    )
    return proof.counting(count_moments)


def train_once(adapter: JaxAdapter) -> int:
    """Train another model for one step in the adapter's precision, and drop all that refers to it.

    Returns the number of steps. The case of the adapter is one of evaluation; the
    other model is trained by the baseline.
    """
    # the new adapter below replaces the callback by which this adapter counts collections
    callbacks = list(gc.callbacks)
    case = replace(adapter.case, scenario="train", strategy="fp32")
    trainer = JaxAdapter(case, adapter.switches)
    trainer.float64 = adapter.float64  # `build` makes the weights in this precision
    trainer.build()
    trainer.step()
    trainer.synchronize()
    gc.callbacks[:] = callbacks
    steps = trainer.steps
    vars(trainer).clear()  # an adapter refers to itself, unlike the variables of a script
    return steps


@switch
def after_training(adapter: JaxAdapter, cleared: bool) -> Proof:
    """Train another model for one step first, and drop it.

    With `cleared`, Python's collector runs too, and JAX drops its caches.
    """
    training: Evidence = {}

    def train() -> None:
        """Train the other model, and drop it."""
        training["trained_steps"] = train_once(adapter)
        before = adapter.collections["generation 2"]
        if cleared:
            gc.collect()
            jax.clear_caches()
        training["full_collections"] = adapter.collections["generation 2"] - before

    adapter.before_first_step.append(train)
    proof = expect(trained_steps=1, full_collections=above(0) if cleared else at_most(0))
    return proof.counting(lambda: training)


# the allocator of a GPU, set by environment variables before JAX is imported


def read_statistics(adapter: JaxAdapter) -> Evidence:
    """Return XLA's counts of its allocations, and the platform."""
    return {"counted": adapter.read_allocator(), "platform": adapter.platform}


@switch
def pool_off(adapter: JaxAdapter) -> Proof:
    """Prove that XLA counts no allocation: it counts only in pools, and is to have none."""
    return expect(platform="gpu", counted={}).counting(lambda: read_statistics(adapter))


@switch
def malloc_async(adapter: JaxAdapter) -> Proof:
    """Prove that XLA counts allocations, but no bytes of a pool: the pool is the driver's."""

    expected = {"counted.num_allocs": above(0), "counted.pool_bytes": 0}
    return expect(expected, platform="gpu").counting(lambda: read_statistics(adapter))


@switch
def memory_fraction(adapter: JaxAdapter) -> Proof:
    """Prove that XLA may take 0.8 of the GPU's memory, as the environment says; by default 0.75.

    XLA reads the share when JAX is imported, so nothing is left to switch on. The proof asks for a
    limit above the default, and not noticeably above 0.8.
    """

    def read_limit() -> Evidence:
        return {
            "limit": adapter.read_allocator().get("bytes_limit", 0),
            "gpu_memory": limits.read_gpu_memory(),
        }

    more_than_default = above("gpu_memory", times=0.76)
    at_most_the_share = at_most("gpu_memory", times=0.81)
    return expect(limit=(more_than_default, at_most_the_share)).counting(read_limit)


@switch
def preallocate(adapter: JaxAdapter) -> Proof:
    """Prove that XLA takes more than half of its limit before the first step."""
    evidence: Evidence = {}

    def read_reserved() -> None:
        counted = adapter.read_allocator()
        evidence["reserved_before"] = counted.get("pool_bytes", 0)
        evidence["limit"] = counted.get("bytes_limit", 0)

    adapter.before_first_step.append(read_reserved)
    return expect(limit=(above(0), below("reserved_before", times=2))).counting(lambda: evidence)
