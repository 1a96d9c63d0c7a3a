"""A result that comes too late, or without being computed, is noticed."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from framebench.models.spec import USER_MODEL
from framebench.suite.case import Case
from framebench.suite.selectors import parse
from framebench.worker.laziness_check import (
    SHORTEST_S,
    TRIES,
    describe_ignored_inputs,
    describe_late_result,
    describe_other_losses,
)
from tests.worker.fake_adapter import ScriptedAdapter

TRAIN = parse("transformer/torch/train/fp32/b4/tiny")
EVAL = parse("transformer/torch/eval/no_grad/b4/tiny")
LATE_S = 40 * SHORTEST_S  # longer than a busy machine takes for a step that does nothing


class SlowAdapter(ScriptedAdapter):
    """A step, and reading its loss or its logits, take so many seconds."""

    def __init__(
        self, case: Case, step_s: float, loss_s: list[float], logits_s: float = 0.0
    ) -> None:
        super().__init__(case, loss_s)
        self.step_s = step_s
        self.logits_s = logits_s

    def step(self) -> None:
        sleep_unless_zero(self.step_s)

    def loss(self) -> float:
        seconds = super().loss()
        sleep_unless_zero(seconds)
        return seconds

    def logits(self) -> None:
        sleep_unless_zero(self.logits_s)


def sleep_unless_zero(seconds: float) -> None:
    """Sleep, unless it is for no time: that would hand the core to other programs."""
    if seconds:
        time.sleep(seconds)


def test_loss_that_takes_longer_than_the_step_is_late():
    adapter = SlowAdapter(TRAIN, step_s=0, loss_s=[LATE_S] * TRIES)
    assert "after the clock of a step of" in describe_late_result(adapter)


@pytest.mark.parametrize(
    ("step_s", "loss_s"),
    [
        (2 * LATE_S, [LATE_S] * TRIES),
        (0, [LATE_S] * (TRIES - 1) + [0]),
        (0, [SHORTEST_S / 10] * TRIES),
    ],
    ids=["shorter than the step", "late only by chance", "too short to tell"],
)
def test_loss_is_not_late(step_s, loss_s):
    adapter = SlowAdapter(TRAIN, step_s, loss_s)
    assert describe_late_result(adapter) == ""


@pytest.mark.parametrize(("logits_s", "is_late"), [(0, False), (LATE_S, True)])
def test_a_users_evaluation_must_have_its_logits(logits_s, is_late):
    """A loss of all pairs may take longer than the forward pass."""
    adapter = SlowAdapter(EVAL, step_s=0, loss_s=[LATE_S] * TRIES, logits_s=logits_s)
    adapter.case = replace(EVAL, workload=USER_MODEL)
    assert ("after the clock of a step of" in describe_late_result(adapter)) == is_late


@pytest.mark.parametrize(
    ("repeated", "allowed", "reason"),
    [
        ([3.0, 2.0, 1.0], 1e-6, ""),
        ([3.0, 2.01, 1.0], 1e-6, "repeated, a step gave the loss 2.01 instead of 2.0"),
        ([3.0, 2.0, float("nan")], 1e-3, "repeated, a step gave the loss nan instead of 1.0"),
    ],
)
def test_repeated_steps_must_give_the_same_losses(repeated, allowed, reason):
    adapter = ScriptedAdapter(TRAIN, repeated)
    assert describe_other_losses(adapter, [3.0, 2.0, 1.0, 0.5], allowed) == reason


class CachingAdapter(ScriptedAdapter):
    """Its loss is computed from its inputs in every n-th step alone."""

    def __init__(self, case: Case, every: int) -> None:
        super().__init__(case)
        self.every = every
        self.computed_loss = 0.0
        if case.scenario == "varlen":
            self.stream = case.workload_spec.make_stream(case.config, case.batch, "raw")
        else:
            self.inputs = case.workload_spec.make_batch(case.config, case.batch)

    def step(self) -> None:
        if self.steps % self.every == 0:
            self.computed_loss = 0.0
            for x, _ in [self.inputs] if self.stream is None else self.stream:
                self.computed_loss += float(x.ravel()[:9] @ np.arange(9))
        self.steps += 1

    def loss(self) -> float:
        return self.computed_loss


@pytest.mark.parametrize(
    "case_id", ["resnet50/torch/eval/no_grad/b4/tiny", "transformer/torch/varlen/raw/b4/tiny"]
)
@pytest.mark.parametrize(
    ("every", "reason"),
    [(1, ""), (2, "other inputs gave the same loss")],
    ids=["reads them in each step", "reads them in every second step"],
)
def test_step_that_ignores_its_inputs_is_told_from_one_that_reads_them(case_id, every, reason):
    adapter = CachingAdapter(parse(case_id), every)
    inputs, stream = adapter.inputs, adapter.stream
    adapter.step()
    assert describe_ignored_inputs(adapter) == reason
    assert adapter.inputs is inputs
    assert adapter.stream is stream
