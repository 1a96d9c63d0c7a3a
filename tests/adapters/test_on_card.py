"""Steps on a card that is not there: both clocks, and whose memory is whose."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from framebench.engine.environments import Environment
from framebench.engine.runner import Options
from framebench.instruments import nvml
from framebench.suite.case import Case
from framebench.suite.protocol import Task, write_turns
from framebench.suite.result import Again, Result, TimeResult, Verification
from framebench.worker import worker
from framebench.worker.observe import Observed
from framebench.worker.stepping import Timing
from framebench.worker.tolerances import ObservedSteps, Tolerances
from tests.adapters.fake_card import OnCard
from tests.single_case import alone


def test_steps_are_timed_by_both_clocks() -> None:
    timing = Timing(OnCard())
    found = timing.turn(1)
    assert found["device_s"] == 0.0015
    assert found["wall_s"] > 0
    assert timing.turn(3)["device_s"] == 0.0005, "three steps are queued, and waited for once"
    assert timing.summarize(TimeResult()).timed_steps == 4


def test_queued_steps_and_those_that_are_waited_for_one_by_one() -> None:
    """A device that works on while the host queues: 5 ms a step, and 20 ms for each time that it is waited for."""
    card = OnCard()
    card.synchronize = lambda: time.sleep(0.02)  # type: ignore[method-assign]
    card.make_stopwatch = lambda: None  # type: ignore[method-assign]
    card.one_step = lambda: time.sleep(0.005)  # type: ignore[method-assign]
    timing = Timing(card)
    assert 0.010 <= timing.turn(4)["wall_s"] < 0.02 < 0.025 <= timing.synced(4)
    assert timing.summarize(TimeResult()).timed_steps == 4


def test_shares_are_of_the_steps_of_turns_alone() -> None:
    """Half of each step waits for data, also of those between the turns, which no share is of."""
    card = OnCard()
    timing = Timing(card)

    def one_step() -> None:
        time.sleep(0.004)
        card.seconds_spent["wait"] += 0.002

    card.one_step = one_step  # type: ignore[method-assign]
    for _ in range(4):
        timing.turn(4)
        timing.synced(4)
    assert 0 < timing.summarize(TimeResult()).shares["wait"] <= 0.5


def test_host_memory_says_nothing_about_tensors_on_a_card() -> None:
    found = worker.measure_memory(OnCard(), Task("", "memory"), lambda message: None)
    assert found.peaks == {"allocator.in_use": 5, "compiler.plan": 4}
    assert found.allocator == {"ooms": 0}


def test_the_first_step_that_compiles_has_the_cold_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    verified = ObservedSteps([0.1], Observed({}), Tolerances({}, {}, 0.0))
    monkeypatch.setattr(worker, "make_verified_steps", lambda *_: (verified, Verification(passed=True)))
    monkeypatch.setattr(worker, "verify_again", lambda *_: Again(passed=True))
    commands = map(json.loads, write_turns(3).splitlines())
    result = worker.measure_time(OnCard(), Task("", "time"), Result(), lambda message: None, commands)
    assert result.times is not None
    assert result.times.cold_peaks == {"allocator.in_use": 5}


@pytest.mark.gpu
@pytest.mark.skipif(not nvml.list_gpus(), reason="needs a GPU: NVML finds none")
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_whole_case_on_a_card(framework: str, environment: dict[str, Environment], results: Any) -> None:
    case = Case("transformer", framework, "train", "fp32", 4, "tiny")
    record = alone(case, "s", environment[framework], Options(), results)
    assert record.status == "ok", record.reason
    assert record.provenance.gpu["before"]["name"] in nvml.list_gpus()
    if record.provenance.hardware["device"] == "cpu":
        pytest.skip(f"this {framework} is a build for the CPU")
    assert record.peak_instrument == "allocator.in_use"
    assert record.peaks["allocator.reserved"] >= record.peaks["allocator.in_use"] > 0
    assert "host.rss" not in record.peaks
    assert record.cold_peaks["allocator.in_use"] >= record.peaks["allocator.in_use"]
    assert "context_bytes" in record.allocator or record.provenance.gpu["device.process"]
    if framework == "torch":
        assert sum(record.device_step_s) <= sum(record.step_s[-len(record.device_step_s) :])
    else:
        assert record.allocator["programs_from_cache"] > 0
