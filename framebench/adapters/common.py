"""Switches that work in every framework: they only use the `Adapter` interface."""

from __future__ import annotations

import gc
import math
from collections import Counter
from collections.abc import Callable

from framebench.adapters.base import Adapter, Switches
from framebench.adapters.loading import Loader, expect_loader
from framebench.adapters.proof import (
    Evidence,
    Proof,
    above,
    at_most,
    below,
    check,
    equal_to,
    expect,
    other_than,
)
from framebench.models.spec import STREAM_BATCHES

switch = Switches()


@switch
def variant(adapter: Adapter) -> Proof:
    """Prove that the variant's model was built, by its number of parameters.

    There is nothing to switch on: the case's configuration is already the variant's.
    """
    workload, case = adapter.workload, adapter.case
    declared = workload.parameter_count(case.config)

    def count_parameters() -> Evidence:
        plain_config = workload.config(case.size)
        return {
            "parameters": adapter.parameter_count(),
            "parameters_of_the_plain_model": workload.parameter_count(plain_config),
        }

    proof = expect(parameters=declared, parameters_of_the_plain_model=other_than(declared))
    return proof.counting(count_parameters)


@switch
def collector(adapter: Adapter, mode: str = "", every: int = 0) -> Proof:
    """Switch Python's garbage collector off, or freeze its objects before the first step.

    With `every` the collector is off, and is called after each `every` steps.
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

    def watch_collections() -> Evidence:
        """Count collections of Python's collector over some more steps."""
        before = adapter.collections.copy()
        for _step in range(2 * max(every, 1)):
            adapter.step()
        adapter.synchronize()
        return {
            # subtracting counters drops generations that were not collected
            "collections": dict(adapter.collections - before),
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

    def count_batches() -> Evidence:
        """Make three steps, and count the batches that the loader prepared for them."""
        assert adapter.loader
        before = adapter.loader.batches_prepared
        for _step in range(3):
            adapter.step()
        adapter.synchronize()
        prepared = {"batches_prepared_by_3_steps": adapter.loader.batches_prepared - before}
        return adapter.loader.count() | prepared

    if mode == "whole":
        expected = expect(batches_prepared_by_3_steps=0)
    elif mode == "whole_every_step":
        expected = expect(batches_prepared_by_3_steps=3 * STREAM_BATCHES)
    else:
        expected = expect(batches_prepared_by_3_steps=(above(0), below(STREAM_BATCHES)))
    return (expect_loader(mode) & expected).counting(count_batches)


@switch
def stream(adapter: Adapter) -> Proof:
    """Prove that the batches of `varlen` have as many shapes as the strategy says.

    The adapter's `make` has already asked the workload for such a stream.
    """

    def count_shapes() -> Evidence:
        return {"distinct_shapes": len({tuple(x.shape) for x, _ in adapter.stream})}

    lengths = adapter.case.length_strategy
    if lengths == "padded":
        proof = expect(distinct_shapes=1)
    elif lengths == "bucketed":
        proof = expect(distinct_shapes=at_most(4))
    else:
        proof = expect(distinct_shapes=above(1))
    return proof.counting(count_shapes)


@switch
def factored(adapter: Adapter) -> Proof:
    """Prove that Adafactor stores fewer numbers for its second moments than the weights have.

    The case already has Adafactor as its optimizer.
    """

    def count_numbers() -> Evidence:
        """Compare the numbers in the optimizer's states with the textbook's, weight by weight."""
        numbers: Counter[str] = Counter()  # by weight, in all states of the optimizer
        for state in adapter.states():
            numbers[state.name] += state.array.size
        matrices: Counter[str] = Counter()  # numbers of each weight with several axes
        expected: Counter[str] = Counter()  # numbers in the states by the textbook, by weight
        for weight in adapter.workload.params(adapter.config):
            if weight.trainable:
                expected[weight.name] = adapter.case.optimizer.count_state_numbers(weight.shape)
                if len(weight.shape) > 1:
                    matrices[weight.name] = math.prod(weight.shape)
        return {
            "numbers_of_matrices": matrices.total(),
            "numbers_kept_of_them": sum(numbers[name] for name in matrices),
            "weights_with_other_numbers": len(dict(numbers.items() ^ expected.items())),
        }

    proof = expect(
        numbers_kept_of_them=(above(0), below("numbers_of_matrices")),
        weights_with_other_numbers=0,
    )
    return proof.counting(count_numbers)


# proofs that the switches of several frameworks share


def expect_buffers_unchanged(is_training: Callable[[], bool]) -> Proof:
    """Return a proof that a step changes no running statistic.

    The proof also holds if `is_training` returns True, since training mode may change them. It is
    called when the proof is judged, since a strategy that switches to training mode, such as
    `batch_stats`, may come after the one that is proven.
    """

    def are_unchanged(evidence: Evidence) -> bool:
        return bool(evidence["buffers_changed"] == 0 or is_training())

    return check(are_unchanged, "running statistics stay as they were")


def expect_buffers_changed(adapter: Adapter, displace: Callable[[], object]) -> Proof:
    """Return a proof that a step changes every running statistic.

    `displace` first moves them away from their values: steps with the same batch make them
    converge, and then they no longer change.
    """

    def count_changed() -> Evidence:
        displace()
        observed = adapter.observe()
        return {name: observed[name] for name in ("buffers", "buffers_changed")}

    return expect(buffers=above(0), buffers_changed=equal_to("buffers")).counting(count_changed)


def expect_trained(
    adapter: Adapter, prefixes: tuple[str, ...], find_trained: Callable[[], set[str]]
) -> Proof:
    """Return a proof that the weights with these prefixes are trained, and no others.

    `find_trained` returns the names of the weights that were trained.
    """

    def count_weights() -> Evidence:
        """Count the weights that were trained or have optimizer states, and those that should."""
        trainable = [p.name for p in adapter.workload.params(adapter.config) if p.trainable]
        to_train = {name for name in trainable if name.startswith(prefixes)}
        trained = find_trained()
        with_states = {state.name for state in adapter.states()}
        return {
            "weights_trained": len(trained),
            "weights_with_states": len(with_states),
            "weights_to_train": len(to_train),
            "other_weights_trained": len((trained | with_states) - to_train),
        }

    proof = expect(
        weights_trained=equal_to("weights_to_train"),
        weights_to_train=above(0),
        weights_with_states=equal_to("weights_to_train"),
        other_weights_trained=0,
    )
    return proof.counting(count_weights)
