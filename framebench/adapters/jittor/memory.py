"""How Jittor switches on the strategies of `framebench/strategies/memory.py`, and what proves that they were on."""

from __future__ import annotations

import gc

import jittor as jt
import numpy as np
from jittor import Module

from framebench.adapters.base import Switches
from framebench.adapters.jittor.adapter import JittorAdapter, load_weights, make_optimizer, trainable, values
from framebench.adapters.jittor.probe import probe
from framebench.adapters.proof import Evidence, Proof, above, at_least, expect

switch = Switches()
SPARE = 64 << 20  # bytes


@switch
def empty_cache(run: JittorAdapter, every: int = 1) -> Proof:
    """Call `jt.gc()` after every so many steps, which gives the pool's free blocks back to the system."""
    given: list[int] = []

    def clear() -> None:
        if run.steps % every == 0:
            run.synchronize()
            given.append(give_back(run))

    def count_given(_: Evidence) -> Evidence:
        def litter_in_time() -> None:
            if run.steps % every == 0:
                _litter()

        run.after_step.insert(0, litter_in_time)
        given.clear()
        for _step in range(2 * every):
            run.step()
        run.after_step.remove(litter_in_time)
        return {
            "steps_watched": 2 * every,
            "calls": len(given),
            "bytes_given_back": sum(given),
            "bytes_given_by_the_least": min(given, default=0),
        }

    run.after_step.append(clear)
    proof = expect(calls=2, bytes_given_by_the_least=at_least(SPARE))
    return proof.counting(count_given)


def _litter() -> None:
    """Leave a free block for certain: a small model may leave something in each of its own."""
    (jt.array(np.zeros(SPARE // 4, np.float32)) + 1).sync()


def give_back(run: JittorAdapter) -> int:
    """Empty the pool, and return the bytes that it held in vain."""
    before = run.reserved()
    jt.gc()
    return before - run.reserved()


@switch
def managed_allocator(run: JittorAdapter) -> Proof:
    """Prove who gives the watched pool its memory. The flag came from the environment, before the import."""
    proof = expect(source_of_the_pool="cuda_managed")
    return proof.counting(lambda _: {"source_of_the_pool": probe().source()})


def _train_once(run: JittorAdapter, model: Module) -> int:
    """Train the model for one step, whose pool stays, and give it its weights back.

    Return how many tensors the step changed.
    """
    x, y = run.inputs
    before = values(model)
    optimizer = make_optimizer(run.case.optimizer, trainable(model))
    optimizer.step(run.recipe.loss(x, y))
    run.synchronize()
    changed = sum(not np.array_equal(w, before[name]) for name, w in values(model).items())
    load_weights(model, run.case.weights)
    run.converted(model)
    return changed


@switch
def after_training(run: JittorAdapter, cleared: bool) -> Proof:
    """Train the same model for one step first. What that leaves in the pool may stay there."""
    run.recipe.keeps_pool = not cleared
    training_evidence: Evidence = {}

    def train(model: Module) -> None:
        training_evidence["tensors_trained"] = _train_once(run, model)
        training_evidence["bytes_left_by_training"] = run.reserved()

    def clear() -> None:
        if cleared:
            _litter()
            gc.collect()
            training_evidence["bytes_given_back"] = give_back(run)
        training_evidence["bytes_held_before_evaluation"] = run.reserved()

    run.recipe.on_model.append(train)
    run.before_first_step.append(clear)
    proof = expect(tensors_trained=above(0))
    if cleared:
        # how much the training left to give back is what is measured; the litter is given back in any case
        proof &= expect(bytes_given_back=at_least(SPARE))
    return proof.counting(lambda _: training_evidence)


@switch
def mem_limit(run: JittorAdapter, share: float = 0.75) -> Proof:
    """Limit the pool to a share of what it holds after one step without a limit. Jittor exceeds it rather than fail."""

    def limit(model: Module) -> None:
        jt.gc()
        _train_once(run, model)
        jt.flags.cpu_mem_limit = jt.flags.device_mem_limit = int(share * run.reserved())
        jt.gc()

    def count_swapped(_: Evidence) -> Evidence:
        before = probe().swapped_bytes()
        run.step()
        run.synchronize()
        return {
            "bytes_swapped": probe().swapped_bytes() - before,
            "limit": jt.flags.cpu_mem_limit,
            "reserved": run.reserved(),
        }

    run.recipe.on_model.append(limit)
    return expect(bytes_swapped=above(0)).counting(count_swapped)
