"""A result that comes too late, or without being computed, is noticed."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from framebench.suite.selectors import parse
from framebench.worker.presence import SHORTEST_S, TRIES, remembered, unfinished


def stepping(step_s: float, read_s: list[float]) -> Any:
    """An adapter whose step and whose loss take so long."""
    reads = iter(read_s)
    return SimpleNamespace(step=lambda: time.sleep(step_s), synchronize=lambda: None, loss=lambda: time.sleep(next(reads)))


def test_a_loss_that_takes_longer_than_the_step_is_late() -> None:
    late = 4 * SHORTEST_S
    assert "after the clock of a step of" in unfinished(stepping(0, [late] * TRIES))
    assert unfinished(stepping(2 * late, [late])) == ""


def test_one_late_loss_is_chance_and_a_short_one_says_nothing() -> None:
    late = 4 * SHORTEST_S
    assert unfinished(stepping(0, [late] * (TRIES - 1) + [0])) == ""
    assert unfinished(stepping(0, [SHORTEST_S / 10])) == ""


@pytest.mark.parametrize("case_id", ["resnet50/torch/eval/no_grad/b4/tiny", "transformer/torch/varlen/raw/b4/tiny"])
@pytest.mark.parametrize("every", [1, 2])
def test_a_step_that_does_not_look_at_its_inputs_is_remembered(case_id: str, every: int) -> None:
    case = parse(case_id)
    name = "stream" if case.scenario == "varlen" else "inputs"
    adapter: Any = SimpleNamespace(
        case=case, workload=case.spec, config=case.config, put=lambda x, y: (x, y), synchronize=lambda: None, steps=0, seen=0.0
    )
    spec = case.spec
    batches = spec.stream(case.config, 4, "raw") if name == "stream" else [spec.batch(case.config, 4)]
    own = batches if name == "stream" else batches[0]
    setattr(adapter, name, own)

    def step() -> None:
        if adapter.steps % every == 0:
            now = getattr(adapter, name)
            adapter.seen = sum(float(x.ravel()[:9] @ np.arange(9)) for x, _ in (now if name == "stream" else [now]))
        adapter.steps += 1

    adapter.step, adapter.loss = step, lambda: adapter.seen
    step()
    assert remembered(adapter) == ("" if every == 1 else "other inputs gave the same loss")
    assert getattr(adapter, name) is own
