"""The switches that need nothing of a framework."""

from __future__ import annotations

import gc
import math
from collections import Counter

from framebench.adapters.base import Adapter, Switches, find_length_strategy
from framebench.adapters.loading import Loader, expect_loader
from framebench.adapters.proof import Evidence, Proof, above, at_most, below, expect, other_than
from framebench.models.spec import STREAM

switch = Switches()


@switch
def variant(adapter: Adapter) -> Proof:
    """Prove that the variant's model was built: the case's configuration is the variant's already."""
    workload, case = adapter.workload, adapter.case
    declared = workload.parameter_count(case.config)

    def count_parameters(_: Evidence) -> Evidence:
        plain_config = workload.config(case.size)
        return {
            "parameters": adapter.parameter_count(),
            "parameters_of_the_plain_model": workload.parameter_count(plain_config),
        }

    proof = expect(parameters=declared, parameters_of_the_plain_model=other_than(declared))
    return proof.counting(count_parameters)


@switch
def collector(adapter: Adapter, mode: str = "", every: int = 0) -> Proof:
    """Switch Python's garbage collector off, or freeze it before the first step.

    With `every` it is called after every so many steps, and else off.
    """

    def collect() -> None:
        if adapter.steps % every == 0:
            adapter.synchronize()
            gc.collect()

    def freeze() -> None:
        gc.collect()
        gc.freeze()

    if mode == "frozen":
        adapter.before_first_step.append(freeze)
    else:
        gc.disable()
    if every:
        adapter.after_step.append(collect)

    def watch_collections(_: Evidence) -> Evidence:
        before = adapter.collections.copy()
        steps = 2 * max(every, 1)
        for _step in range(steps):
            adapter.step()
        adapter.synchronize()
        collections = dict(adapter.collections - before)  # without generations that were not collected
        return {
            "steps_watched": steps,
            "collections": collections,
            "collector_enabled": gc.isenabled(),
            "frozen_objects": gc.get_freeze_count(),
        }

    if mode == "frozen":
        proof = expect(collector_enabled=True, frozen_objects=above(1000))
    else:
        proof = expect(collections={"generation 2": 2} if every else {})
    return proof.counting(watch_collections)


@switch
def loading(adapter: Adapter, mode: str) -> Proof:
    """Take the batches of `pipeline` from a loader of this mode."""

    def start_loader() -> None:
        adapter.loader = Loader(adapter.case, mode, adapter.put)

    adapter.before_first_step.append(start_loader)

    def count_batches(_: Evidence) -> Evidence:
        assert adapter.loader
        before = adapter.loader.made
        for _step in range(3):
            adapter.step()
        adapter.synchronize()
        prepared = {"batches_prepared_by_3_steps": adapter.loader.made - before}
        return adapter.loader.count() | prepared

    in_3_steps = {"whole": 0, "whole_every_step": 3 * STREAM}.get(mode, (above(0), below(STREAM)))
    proof = expect_loader(mode) & expect(batches_prepared_by_3_steps=in_3_steps)
    return proof.counting(count_batches)


@switch
def stream(adapter: Adapter) -> Proof:
    """Prove that batches of `varlen` have the shapes that the strategy is called by.

    The adapter's make() asks the workload for the stream in that way.
    """

    def count_shapes(_: Evidence) -> Evidence:
        batches = [x for x, _ in adapter.stream]
        tokens = sum(math.prod(x.shape) for x in batches)
        return {
            "batches": len(batches),
            "distinct_shapes": len({tuple(x.shape) for x in batches}),
            "tokens": tokens,
            "padding_share": 1 - adapter.case.work / tokens,
        }

    expected = {"padded": 1, "bucketed": at_most(4)}.get(find_length_strategy(adapter.case), above(1))
    return expect(distinct_shapes=expected).counting(count_shapes)


@switch
def factored(adapter: Adapter) -> Proof:
    """Prove that Adafactor, the case's optimizer already, keeps less than one number for each of a matrix."""

    def count_numbers(_: Evidence) -> Evidence:
        shapes = {p.name: p.shape for p in adapter.workload.params(adapter.config) if p.trainable}
        numbers: Counter[str] = Counter()
        for state in adapter.states():
            numbers[state.name] += state.array.size
        expected = {name: adapter.case.optimizer.numbers(shape) for name, shape in shapes.items()}
        every_name = numbers.keys() | expected.keys()
        matrices = [name for name, shape in shapes.items() if len(shape) > 1]
        return {
            "matrices": len(matrices),
            "numbers_of_matrices": sum(math.prod(shapes[name]) for name in matrices),
            "numbers_kept_of_them": sum(numbers[name] for name in matrices),
            "weights_with_other_numbers": sum(numbers.get(n) != expected.get(n) for n in every_name),
        }

    proof = expect(numbers_kept_of_them=(above(0), below("numbers_of_matrices")), weights_with_other_numbers=0)
    return proof.counting(count_numbers)
