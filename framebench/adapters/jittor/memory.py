"""Jittor's switches for the strategies of `framebench/strategies/memory.toml`."""

from __future__ import annotations

import gc

import jittor as jt
import numpy as np
from jittor import Module

from framebench.adapters.base import Switches
from framebench.adapters.jittor.adapter import (
    JittorAdapter,
    copy_weights,
    load_weights,
    make_optimizer,
)
from framebench.adapters.jittor.probe import load_probe
from framebench.adapters.proof import Evidence, Proof, above, at_least, expect

switch = Switches()
FREE_BLOCK = 64 << 20  # bytes


@switch
def empty_cache(adapter: JittorAdapter, every: int = 1) -> Proof:
    """Give the pool's free blocks back by `jt.gc()` after each `every` steps."""
    given_back: list[int] = []

    def clear() -> None:
        if adapter.steps % every == 0:
            adapter.synchronize()
            given_back.append(empty_pool(adapter))

    def count_given_back() -> Evidence:
        """Count the calls of two more periods, and the bytes that the least of them gives back."""

        def leave_block_in_time() -> None:
            if adapter.steps % every == 0:
                leave_free_block()

        adapter.after_step.insert(0, leave_block_in_time)
        given_back.clear()
        for _step in range(2 * every):
            adapter.step()
        adapter.after_step.remove(leave_block_in_time)
        return {
            "calls": len(given_back),
            "bytes_given_by_the_least": min(given_back, default=0),
        }

    adapter.after_step.append(clear)
    return expect(calls=2, bytes_given_by_the_least=at_least(FREE_BLOCK)).counting(count_given_back)


def leave_free_block() -> None:
    """Leave a free block in the pool, to be given back.

    The steps of a small model may leave none, since every block has a part that is in use.
    """
    (jt.array(np.zeros(FREE_BLOCK // 4, np.float32)) + 1).sync()


def empty_pool(adapter: JittorAdapter) -> int:
    """Give the pool's free blocks back to the system, and return their bytes."""
    before = adapter.reserved_bytes()
    jt.gc()
    return before - adapter.reserved_bytes()


@switch
def managed_allocator(adapter: JittorAdapter) -> Proof:
    """Prove that the watched pool takes managed memory from CUDA.

    The flag was set in the environment, before Jittor was imported.
    """

    def read_source() -> Evidence:
        return {"source_of_the_pool": load_probe().source()}

    return expect(source_of_the_pool="cuda_managed").counting(read_source)


def train_once(adapter: JittorAdapter, model: Module) -> int:
    """Train the model for one step, and restore its weights. The pool keeps its memory.

    Return how many tensors the step changed.
    """
    x, y = adapter.inputs
    weights_before = copy_weights(model)
    optimizer = make_optimizer(adapter.case.optimizer, model)
    optimizer.step(adapter.recipe.loss(x, y))
    adapter.synchronize()
    weights_after = copy_weights(model)
    load_weights(model, adapter.case.weights)
    adapter.convert(model)
    return sum(
        not np.array_equal(weights_after[name], weights_before[name]) for name in weights_before
    )


@switch
def after_training(adapter: JittorAdapter, cleared: bool) -> Proof:
    """Train the same model for one step first; the pool may keep the memory of that step."""
    adapter.recipe.keeps_pool = not cleared
    training: Evidence = {}

    def train(model: Module) -> None:
        training["tensors_trained"] = train_once(adapter, model)

    def clear() -> None:
        if cleared:
            leave_free_block()
            gc.collect()
            training["bytes_given_back"] = empty_pool(adapter)

    adapter.recipe.on_model.append(train)
    adapter.before_first_step.append(clear)
    proof = expect(tensors_trained=above(0))
    if cleared:
        # the bytes that the training left are the result of the measurement, and may be none; the
        # free block is always given back
        proof &= expect(bytes_given_back=at_least(FREE_BLOCK))
    return proof.counting(lambda: training)


@switch
def mem_limit(adapter: JittorAdapter, share: float = 0.75) -> Proof:
    """Limit the pool to a share of the bytes that it holds after one step without a limit.

    Jittor exceeds the limit rather than fail.
    """

    def limit(model: Module) -> None:
        jt.gc()
        train_once(adapter, model)
        limit_bytes = int(share * adapter.reserved_bytes())
        jt.flags.cpu_mem_limit = limit_bytes
        jt.flags.device_mem_limit = limit_bytes
        jt.gc()

    def count_swapped() -> Evidence:
        """Make a step, and count the bytes that it swapped out."""
        before = load_probe().swapped_bytes()
        adapter.step()
        adapter.synchronize()
        return {"bytes_swapped": load_probe().swapped_bytes() - before}

    adapter.recipe.on_model.append(limit)
    return expect(bytes_swapped=above(0)).counting(count_swapped)
