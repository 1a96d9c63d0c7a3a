"""Shares of the step time are of the timed steps alone."""

from __future__ import annotations

import time
from typing import Any

import pytest

from framebench.suite.result import TimeResult
from framebench.suite.selectors import parse
from framebench.worker.stepping import Timing
from tests.worker.fake_adapter import ScriptedAdapter


class Waiting(ScriptedAdapter):
    """Half of each step is spent waiting."""

    def step(self) -> None:
        start = time.perf_counter()
        time.sleep(0.01)
        self.seconds_spent["wait"] += time.perf_counter() - start
        time.sleep(0.01)


def test_shares_of_time_ignore_steps_after_the_turns():
    adapter: Any = Waiting(parse("transformer/torch/eval/no_grad/b4/tiny"))
    adapter.step()  # a warm-up
    timing = Timing(adapter)
    for _ in range(2):
        timing.turn(2)
    between = timing.summarize(TimeResult()).shares["wait"]
    for _ in range(20):  # verification of what was timed takes steps too
        adapter.step()
    assert between == pytest.approx(0.5, abs=0.3)
    assert timing.summarize(TimeResult()).shares["wait"] == between
