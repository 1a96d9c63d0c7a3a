"""Observe the results of a case that are verified: losses, tensors, and the optimizer's updates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from framebench.adapters.base import Adapter
from framebench.models.spec import STREAM_BATCHES
from framebench.suite.protocol import LOSS_STEPS
from framebench.suite.tensors import NORM, Summaries, summarize_all, summarize_logits
from framebench.worker.optimizer_check import OptimizerCheck
from framebench.worker.stepping import make_timed_step

RETAINED = 0.9  # share of a running statistic that one forward pass leaves: 1 - PyTorch's momentum


@dataclass
class Observed:
    """The observations of the first steps of a case.

    The kinds of tensors are gradient, weight (its change), buffer (its change), each of the
    optimizer's states, and output.
    """

    values: dict[str, float]  # losses and norms by name
    tensors: Summaries = field(default_factory=dict)
    state_bytes: int | None = None  # of the optimizer
    # by weight: the relative error of its change against the textbook's
    updates: dict[str, float] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)  # weights that an update left as they were


def make_first_steps(adapter: Adapter) -> tuple[list[float], Observed]:
    """Make the steps that verification needs, and return their seconds and observations."""
    if not adapter.case.scenario_spec.trains:
        with adapter.disable_randomness():
            return _evaluate(adapter)
    # before randomness is disabled, which would replace a user's random weights by their mean
    before = dict(adapter.case.weights)
    if adapter.teacher_config:
        for name, array in adapter.workload.make_weights(adapter.teacher_config).items():
            before[f"teacher.{name}"] = array
    with adapter.disable_randomness():
        return _train(adapter, before)


def observe_losses(adapter: Adapter) -> tuple[list[float], Observed]:
    """Make the first steps, and return their seconds, and their losses as the observations."""
    with adapter.disable_randomness():
        seconds = [make_timed_step(adapter)]
        if not adapter.case.scenario_spec.trains:
            return seconds, Observed({"loss": adapter.loss()})
        values = {"loss_0": adapter.loss()}
        while len(seconds) < adapter.workload.update_period + LOSS_STEPS:
            seconds.append(make_timed_step(adapter))
        values[f"loss_{LOSS_STEPS}"] = adapter.loss()
    return seconds, Observed(values)


def restart(adapter: Adapter) -> None:
    """Return to the first batch and to the case's weights, without compiling the step again."""
    while adapter.loader is not None and adapter.steps % STREAM_BATCHES:
        make_timed_step(adapter)
    adapter.restore()
    adapter.restored_at = adapter.steps


def _train(
    adapter: Adapter, initial_weights: dict[str, np.ndarray]
) -> tuple[list[float], Observed]:
    """Make the first updates, and return their seconds and observations.

    `initial_weights` also has the initial buffers. All are by name.
    """
    seconds = [make_timed_step(adapter)]
    first_loss = adapter.loss()
    for _ in range(1, adapter.workload.update_period):
        seconds.append(make_timed_step(adapter))
    gradient = summarize_all(read_gradients(adapter))
    if not gradient:  # the optimizer keeps no gradient: the first update is taken in its place
        gradient = measure_changes(adapter, initial_weights, len(seconds))["weight"]
    norms = [summary[NORM] for summary in gradient.values()]
    values = {"loss_0": first_loss, "grad_norm": float(np.linalg.norm(norms))}
    optimizer_check = OptimizerCheck(adapter, initial_weights)
    for _ in range(LOSS_STEPS):
        seconds.append(make_timed_step(adapter))
        optimizer_check.record_update(adapter)
    values[f"loss_{LOSS_STEPS}"] = adapter.loss()
    observed = Observed(values, {"gradient": gradient})
    observed.tensors.update(measure_changes(adapter, initial_weights, len(seconds)))
    observed.updates = optimizer_check.compute_errors(adapter)
    observed.skipped = optimizer_check.skipped
    states_by_kind, observed.state_bytes = read_states(adapter)
    observed.tensors.update(states_by_kind)
    return seconds, observed


def _evaluate(adapter: Adapter) -> tuple[list[float], Observed]:
    """Make one step without an update, and return its seconds and observations."""
    # a scenario without logits keeps no model, so there are no buffers to read
    if adapter.case.scenario_spec.observes != "logits":
        return [make_timed_step(adapter)], Observed({"loss": adapter.loss()})
    names = list_buffers(adapter)
    before = {name: array.copy() for name, array in adapter.weights() if name in names}
    seconds = [make_timed_step(adapter)]
    return seconds, observe_output(adapter, measure_changes(adapter, before, steps=1))


def observe_output(adapter: Adapter, tensors: Summaries | None = None) -> Observed:
    """Return the observed loss and logits of the last step, and other observed tensors."""
    logits = summarize_logits(adapter.logits())
    values = {"loss": adapter.loss(), "logits_norm": logits["logits"][NORM]}
    return Observed(values, {"output": logits, **(tensors or {})})


def read_gradients(adapter: Adapter) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the gradients of the first step by name, read from the optimizer's state.

    The measured step then needs no extra work. After one step SGD's momentum is the gradient, and
    AdamW's first moment is (1 - beta1) times it. The states of any other optimizer with these names
    are yielded unchanged; if it has none, nothing is yielded.
    """
    optimizer = adapter.case.optimizer
    kinds: tuple[str, ...] = ("momentum", "first moment")
    scale = 1.0
    if optimizer.name == "sgd":
        kinds = ("momentum",)
    elif optimizer.name == "adamw":
        kinds = ("first moment",)
        scale = 1 - optimizer.betas[0]
    for state in adapter.states():
        if state.kind in kinds:
            yield state.name, state.array / np.float64(scale)


def read_states(adapter: Adapter) -> tuple[Summaries, int]:
    """Return summaries of the optimizer's states by kind, and the bytes of all of them together."""
    by_kind: Summaries = {}
    size = 0
    for state in adapter.states():
        by_kind.setdefault(state.kind, {}).update(summarize_all([(state.name, state.array)]))
        size += state.nbytes
    return by_kind, size


def list_buffers(adapter: Adapter) -> set[str]:
    """Return the names of the model's tensors that are not trained."""
    return {param.name for param in adapter.workload.params(adapter.config) if not param.trainable}


def measure_changes(
    adapter: Adapter, initial_tensors: dict[str, np.ndarray], steps: int
) -> Summaries:
    """Return summaries of how weights and buffers have changed in so many steps.

    Elements that the loss does not depend on count as unchanged.
    """
    undetermined = adapter.workload.undetermined(adapter.config)
    buffers = list_buffers(adapter)
    by_kind: Summaries = {"weight": {}, "buffer": {}}
    passes = steps * adapter.micro_batches
    for name, array in unbias_running_variances(
        adapter, adapter.weights(), initial_tensors, passes
    ):
        if name not in initial_tensors:
            continue
        wide = array.astype(np.promote_types(array.dtype, np.float64))
        change = np.atleast_1d(subtract(wide, initial_tensors[name]))
        if name in undetermined:
            change[undetermined[name]] = 0
        kind = "buffer" if name in buffers else "weight"
        by_kind[kind].update(summarize_all([(name, change)]))
    return {kind: tensors for kind, tensors in by_kind.items() if tensors}


def subtract(after: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Return how much each element has changed.

    An infinite element that stays, as in a mask of attention, has not changed: the difference of
    two infinities would be no number.
    """
    change = np.zeros(after.shape, np.result_type(after, before))
    np.subtract(after, before, out=change, where=after != before)
    return change


def unbias_running_variances(
    adapter: Adapter,
    tensors: Iterable[tuple[str, np.ndarray]],
    initial_tensors: dict[str, np.ndarray],
    passes: int,
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the tensors by name, with biased running variances converted to unbiased ones.

    The unbiased variance of n values per channel is n / (n - 1) times the biased one. A framework
    that keeps unbiased ones is not changed.

    Args:
        adapter: It tells whether its framework's running variances are biased.
        tensors: Weights and buffers after the forward passes.
        initial_tensors: Weights and buffers before the forward passes, by name.
        passes: The number of forward passes.
    """
    counts: Mapping[str, int] = {}  # values per channel, by buffer
    if adapter.biased_variance:
        samples = adapter.case.batch // adapter.micro_batches
        counts = adapter.workload.normalised(adapter.config, samples)
    for name, array in tensors:
        n = counts.get(name)
        if n is not None and not np.array_equal(array, initial_tensors[name]):
            # the part that is left of the initial value was never biased
            initial = initial_tensors[name].astype(np.float64) * RETAINED**passes
            array = initial + (array - initial) * (n / (n - 1))
        yield name, array
