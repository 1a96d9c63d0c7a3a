"""The switches that need nothing of a framework."""

from __future__ import annotations

import gc
import math
from collections import Counter

from framebench.adapters.base import Adapter, Evidence, Proof, Switches, lengths_of
from framebench.adapters.loading import Loader
from framebench.models.spec import STREAM

switch = Switches()


@switch
def variant(adapter: Adapter) -> Proof:
    """The case's configuration is the variant's already; the proof counts what was built."""
    workload, case = adapter.workload, adapter.case

    def proof(evidence: Evidence) -> bool:
        plain, declared = (workload.parameter_count(c) for c in (workload.config(case.size), case.config))
        evidence["parameters"], evidence["parameters_of_the_plain_model"] = adapter.parameter_count(), plain
        return adapter.parameter_count() == declared != plain

    return proof


@switch
def collector(adapter: Adapter, mode: str = "", every: int = 0) -> Proof:
    """Python's garbage collector off, frozen before the first step, or called after every so many steps and else off."""

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

    def proof(evidence: Evidence) -> bool:
        before, steps = adapter.collections.copy(), 2 * max(every, 1)
        for _ in range(steps):
            adapter.step()
        adapter.synchronize()
        seen = {g: n - before[g] for g, n in adapter.collections.items() if n > before[g]}
        evidence |= {"steps_watched": steps, "collections": seen, "frozen_objects": gc.get_freeze_count()}
        if mode == "frozen":
            return gc.isenabled() and evidence["frozen_objects"] > 1000
        return seen == ({"generation 2": steps // every} if every else {})

    return proof


@switch
def loading(adapter: Adapter, mode: str) -> Proof:
    """`pipeline`: where the batches come from."""
    adapter.before_first_step.append(lambda: setattr(adapter, "loader", Loader(adapter.case, mode, adapter.put)))

    def proof(evidence: Evidence) -> bool:
        assert adapter.loader
        before = adapter.loader.made
        for _ in range(3):
            adapter.step()
        adapter.synchronize()
        evidence |= {**adapter.loader.counted(), "batches_prepared_by_3_steps": adapter.loader.made - before}
        prepared = evidence["batches_prepared_by_3_steps"]
        as_many = {"whole": prepared == 0, "whole_every_step": prepared == 3 * STREAM}
        return adapter.loader.worked_as(mode) and as_many.get(mode, 0 < prepared < STREAM)

    return proof


@switch
def stream(adapter: Adapter) -> Proof:
    """`varlen`: the adapter's make() asks the workload for the stream in the way that the strategy is called."""

    def proof(evidence: Evidence) -> bool:
        case = adapter.case
        batches = [x for x, _ in adapter.stream]
        shapes = len({tuple(x.shape) for x in batches})
        evidence |= {"batches": len(batches), "distinct_shapes": shapes, "tokens": sum(math.prod(x.shape) for x in batches)}
        evidence["padding_share"] = 1 - case.work / evidence["tokens"]
        return {"padded": shapes == 1, "bucketed": shapes <= 4}.get(lengths_of(case), shapes > 1)

    return proof


@switch
def factored(adapter: Adapter) -> Proof:
    """The case's optimizer is Adafactor already; the proof counts what it keeps."""

    def proof(evidence: Evidence) -> bool:
        shapes = {p.name: p.shape for p in adapter.workload.params(adapter.config) if p.trainable}
        kept: Counter[str] = Counter()
        for state in adapter.states():
            kept[state.name] += state.array.size
        matrices = [name for name, shape in shapes.items() if len(shape) > 1]
        evidence |= {
            "matrices": len(matrices),
            "numbers_of_matrices": sum(math.prod(shapes[name]) for name in matrices),
            "numbers_kept_of_them": sum(kept[name] for name in matrices),
        }
        expected = {name: adapter.case.optimizer.numbers(shape) for name, shape in shapes.items()}
        return kept == expected and 0 < evidence["numbers_kept_of_them"] < evidence["numbers_of_matrices"]

    return proof
