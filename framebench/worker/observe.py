"""What verification looks at in a case: losses, summaries of every tensor, and whether the optimizer did as its states say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from framebench.adapters.base import Adapter
from framebench.models.spec import STREAM
from framebench.suite.protocol import LOSS_STEPS
from framebench.suite.tensors import Summaries, Summary, outputs, summaries
from framebench.worker.optimizer_check import OptimizerCheck
from framebench.worker.stepping import timed_step

KEPT = 0.9  # share of a running statistic that one forward pass leaves: 1 - PyTorch's momentum


@dataclass
class Observed:
    """`values` by name; `tensors` by kind: gradient, weight (its change), buffer (its change), each optimizer state, output."""

    values: dict[str, float]
    tensors: Summaries = field(default_factory=dict)
    state_bytes: int | None = None  # of the optimizer
    updates: dict[str, float] = field(default_factory=dict)  # tensor -> what its change has beside the textbook's, relative


def first_steps(adapter: Adapter) -> tuple[list[float], Observed]:
    """Make the steps that verification needs, and return their seconds and what was observed."""
    if not adapter.case.stage.trains:
        with adapter.stilled():
            return _evaluate(adapter)
    before = _canonical(adapter)  # not in a step without chance, where a user's random weights would be their mean
    with adapter.stilled():
        return _train(adapter, before)


def _train(adapter: Adapter, before: dict[str, np.ndarray]) -> tuple[list[float], Observed]:
    seconds, observed = _first_update(adapter, before)
    optimizer_check = OptimizerCheck(adapter, before)
    for _ in range(LOSS_STEPS):
        seconds.append(timed_step(adapter))
        optimizer_check.follow(adapter)
    observed.values[f"loss_{LOSS_STEPS}"] = adapter.loss()
    observed.tensors |= changes(adapter, before, len(seconds))
    observed.updates = optimizer_check.errors(adapter)
    kinds, observed.state_bytes = states(adapter)
    observed.tensors |= kinds
    return seconds, observed


def begin_again(adapter: Adapter) -> None:
    """Go back to the first batch and to the case's weights, in the step as it was compiled."""
    while adapter.loader is not None and adapter.steps % STREAM:
        timed_step(adapter)
    adapter.restore()
    adapter.restored_at = adapter.steps


def _first_update(adapter: Adapter, before: dict[str, np.ndarray]) -> tuple[list[float], Observed]:
    """Make the first step, and return its loss and gradients. Where the optimizer keeps none, the update stands for them."""
    seconds = [timed_step(adapter)]
    gradient_summaries = summaries(gradients(adapter)) or changes(adapter, before, 1)["weight"]
    norm = float(np.linalg.norm([values[0] for values in gradient_summaries.values()]))
    return seconds, Observed({"loss_0": adapter.loss(), "grad_norm": norm}, {"gradient": gradient_summaries})


def _evaluate(adapter: Adapter) -> tuple[list[float], Observed]:
    """One step without an update. A scenario that gives no logits has no model that stays, either."""
    if adapter.case.stage.observes != "logits":
        return [timed_step(adapter)], Observed({"loss": adapter.loss()})
    buffers = {p.name for p in adapter.workload.params(adapter.config) if not p.trainable}
    before = {name: array.copy() for name, array in adapter.weights() if name in buffers}
    seconds = [timed_step(adapter)]
    return seconds, output(adapter, changes(adapter, before, 1))


def output(adapter: Adapter, tensors: Summaries | None = None) -> Observed:
    """Loss and logits of the last step."""
    output_summaries = outputs(adapter.logits())
    return Observed(
        {"loss": adapter.loss(), "logits_norm": output_summaries["logits"][0]}, {"output": output_summaries, **(tensors or {})}
    )


def gradients(adapter: Adapter) -> Iterator[tuple[str, np.ndarray]]:
    """Of the first step, from the optimizer's state: SGD's momentum is then the gradient, and Adam's first moment (1 - beta1)
    times it. So nothing needs to be added to the step that is measured. What a user's optimizer keeps under these names is
    taken as it is; where it keeps none, the first update stands for the gradient."""
    o = adapter.case.optimizer
    kinds, scale = {"sgd": (("momentum",), 1.0), "adamw": (("first moment",), 1 - o.betas[0])}.get(
        o.name, (("momentum", "first moment"), 1.0)
    )
    for state in adapter.states():
        if state.kind in kinds:
            yield state.name, state.array / np.float64(scale)


def states(adapter: Adapter) -> tuple[Summaries, int]:
    """Summaries by kind of state, and the bytes of all states together."""
    summaries_by_kind: Summaries = {}
    size = 0
    for state in adapter.states():
        summaries_by_kind.setdefault(state.kind, {}).update(summaries([(state.name, state.array)]))
        size += state.nbytes
    return summaries_by_kind, size


def _canonical(adapter: Adapter) -> dict[str, np.ndarray]:
    """Where weights and buffers began."""
    teacher = adapter.workload.weights(adapter.teacher) if adapter.teacher else {}
    return adapter.case.weights | {f"teacher.{name}": array for name, array in teacher.items()}


def changes(adapter: Adapter, before: dict[str, np.ndarray], steps: int) -> Summaries:
    """Of the weights and buffers in `before`: by how much they have changed, where the loss depends on them."""
    undetermined = adapter.workload.undetermined(adapter.config)
    buffers = {p.name for p in adapter.workload.params(adapter.config) if not p.trainable}
    summaries_by_kind: dict[str, dict[str, Summary]] = {"weight": {}, "buffer": {}}
    for name, array in corrected(adapter, adapter.weights(), before, steps * adapter.micro):
        if name in before:
            kind = "buffer" if name in buffers else "weight"
            change = np.atleast_1d(array.astype(np.promote_types(array.dtype, np.float64)) - before[name])
            change[undetermined.get(name, slice(0))] = 0
            summaries_by_kind[kind] |= summaries([(name, change)])
    return {kind: tensors for kind, tensors in summaries_by_kind.items() if tensors}


def corrected(
    adapter: Adapter, tensors: Iterable[tuple[str, np.ndarray]], before: dict[str, np.ndarray], passes: int
) -> Iterator[tuple[str, np.ndarray]]:
    """Running variances as PyTorch has them, unbiased, where the framework keeps the biased ones: of the n values per channel
    that each forward pass sees, its share is larger by n / (n - 1)."""
    counts = adapter.workload.normalised(adapter.config, adapter.case.batch // adapter.micro) if adapter.biased_variance else {}
    for name, array in tensors:
        n = counts.get(name)
        if n is not None and not np.array_equal(array, before[name]):
            old = before[name].astype(np.float64) * KEPT**passes
            array = old + (array - old) * (n / (n - 1))
        yield name, array
