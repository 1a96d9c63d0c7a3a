"""A result that comes too late, or without being computed, is noticed."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from framebench.models.spec import USER_MODEL
from framebench.suite.selectors import parse
from framebench.worker.laziness_check import (
    SHORTEST_S,
    TRIES,
    describe_ignored_inputs,
    describe_late_result,
    describe_other_losses,
    give_other_inputs,
)


def standing(**more: Any) -> Any:
    """An adapter as far as a timed step looks at it."""
    about: dict[str, Any] = {
        "outputs": 0,
        "outputs_per_step": Counter(),
        "steps": 0,
        "budget_s": 900.0,
    }
    return SimpleNamespace(synchronize=lambda: None, **about | more)


TRAIN, EVAL = (
    parse("transformer/torch/train/fp32/b4/tiny"),
    parse("transformer/torch/eval/no_grad/b4/tiny"),
)


def stepping(step_s: float, read_s: list[float]) -> Any:
    """An adapter whose step and whose loss take so long."""
    reads = iter(read_s)
    return standing(
        case=TRAIN, step=lambda: time.sleep(step_s), loss=lambda: time.sleep(next(reads))
    )


def test_a_loss_that_takes_longer_than_the_step_is_late() -> None:
    late = 4 * SHORTEST_S
    assert "after the clock of a step of" in describe_late_result(stepping(0, [late] * TRIES))
    assert describe_late_result(stepping(2 * late, [late])) == ""


def test_of_a_users_model_the_logits_must_be_there_and_not_their_loss() -> None:
    """A loss of all pairs may take longer than the forward pass."""
    slow = 4 * SHORTEST_S

    def evaluating(logits_s: float, loss_s: float) -> Any:
        reads = {"logits": lambda: time.sleep(logits_s), "loss": lambda: time.sleep(loss_s)}
        return standing(case=replace(EVAL, workload=USER_MODEL), step=lambda: None, **reads)

    assert describe_late_result(evaluating(0, slow)) == ""
    assert "after the clock of a step of" in describe_late_result(evaluating(slow, 0))


def test_one_late_loss_is_chance_and_a_short_one_says_nothing() -> None:
    late = 4 * SHORTEST_S
    assert describe_late_result(stepping(0, [late] * (TRIES - 1) + [0])) == ""
    assert describe_late_result(stepping(0, [SHORTEST_S / 10])) == ""


def test_steps_are_the_same_a_second_time_or_it_is_said() -> None:
    def again(*losses: float) -> Any:
        found = iter(losses)
        return standing(step=lambda: None, loss=lambda: next(found))

    first = [3.0, 2.0, 1.0, 0.5]
    assert describe_other_losses(again(3.0, 2.0, 1.0), first, 1e-6) == ""
    assert describe_other_losses(again(3.0, 2.01, 1.0), first, 1e-6) == (
        "repeated, a step gave the loss 2.01 instead of 2.0"
    )
    assert describe_other_losses(again(3.0, 2.0001, 1.0), first, 1e-3) == ""
    assert "nan" in describe_other_losses(again(3.0, 2.0, float("nan")), first, 1e-3)


@pytest.mark.parametrize(
    "case_id", ["resnet50/torch/eval/no_grad/b4/tiny", "transformer/torch/varlen/raw/b4/tiny"]
)
@pytest.mark.parametrize("every", [1, 2])
def test_a_step_that_does_not_look_at_its_inputs_is_remembered(case_id: str, every: int) -> None:
    case = parse(case_id)
    name = "stream" if case.scenario == "varlen" else "inputs"
    adapter = standing(
        case=case, workload=case.spec, config=case.config, put=lambda x, y: (x, y), seen=0.0
    )
    spec = case.spec
    batches = (
        spec.make_stream(case.config, 4, "raw")
        if name == "stream"
        else [spec.make_batch(case.config, 4)]
    )
    own = batches if name == "stream" else batches[0]
    setattr(adapter, name, own)

    def step() -> None:
        if adapter.steps % every == 0:
            now = getattr(adapter, name)
            adapter.seen = sum(
                float(x.ravel()[:9] @ np.arange(9)) for x, _ in (now if name == "stream" else [now])
            )
        adapter.steps += 1

    adapter.step, adapter.loss = step, lambda: adapter.seen
    step()
    assert describe_ignored_inputs(adapter) == (
        "" if every == 1 else "other inputs gave the same loss"
    )
    assert getattr(adapter, name) is own


@pytest.mark.parametrize("shape", [(4, 1), (4, 9, 1), (4, 8, 8, 1)])
def test_samples_whose_last_axis_has_one_place_are_moved_too(shape: tuple[int, ...]) -> None:
    x, y = np.arange(np.prod(shape), dtype=np.float32).reshape(shape), np.zeros(4)
    spec = SimpleNamespace(make_batch=lambda config, size: (x, y))
    adapter = standing(
        case=parse("transformer/torch/eval/no_grad/b4/tiny"),
        workload=spec,
        config=None,
        put=lambda x, y: (x, y),
    )

    give_other_inputs(adapter)

    assert not np.array_equal(adapter.inputs[0], x)
    assert sorted(adapter.inputs[0].ravel()) == sorted(x.ravel())
