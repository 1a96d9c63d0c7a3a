"""Steps on a fake GPU: both clocks, and which instruments are read."""

from functools import partial
from unittest.mock import Mock

import pytest

from framebench.engine.runner import Options
from framebench.instruments import nvml
from framebench.suite.case import Case
from framebench.suite.protocol import Task
from framebench.suite.result import RepeatedVerification, Result, TimeResult, Verification
from framebench.worker import worker
from framebench.worker.observe import Observed
from framebench.worker.stepping import Timing
from framebench.worker.tolerances import ObservedSteps, Tolerances
from tests.adapters.fake_gpu import FakeGpuAdapter
from tests.callbacks import ignore
from tests.marks import needs_gpu
from tests.single_case import measure_alone

MIB = 2**20


def test_steps_are_timed_by_both_clocks():
    timing = Timing(FakeGpuAdapter())
    turn = timing.turn(1)
    assert turn["device_s"] == 0.0015
    assert turn["wall_s"] > 0
    assert timing.turn(3)["device_s"] == 0.0005, "three steps are queued, and waited for once"
    assert timing.summarize(TimeResult()).timed_steps == 4


def test_a_turn_waits_once_and_synced_steps_one_by_one():
    adapter = FakeGpuAdapter()
    calls = []
    adapter.synchronize = partial(calls.append, "wait")
    adapter.make_stopwatch = ignore
    adapter.one_step = partial(calls.append, "step")
    timing = Timing(adapter)
    timing.turn(3)
    timing.time_synced_steps(3)
    assert calls == ["step", "step", "step", "wait", *("step", "wait") * 3]
    assert timing.summarize(TimeResult()).timed_steps == 3


def test_host_memory_is_not_read_on_a_gpu():
    result = worker.measure_memory(FakeGpuAdapter(), Task("", "memory"), ignore)
    assert result.peaks == {"allocator.in_use": 5, "compiler.plan": 4}
    assert result.allocator == {"ooms": 0}


def test_cold_peaks_are_those_of_the_first_steps_in_the_allocator(monkeypatch):
    """Every step of this adapter has a higher peak than the one before."""
    first_steps = 2
    steps = []
    adapter = FakeGpuAdapter()
    adapter.one_step = partial(steps.append, "step")

    def read_peaks():
        return {"allocator.in_use": len(steps) * MIB, "compiler.plan": MIB}

    adapter.read_peaks = read_peaks

    def make_first_steps(*_):
        for _step in range(first_steps):
            adapter.one_step()
        verified = ObservedSteps([0.1], Observed({}), Tolerances({}, {}, 0.0))
        return verified, Verification(passed=True)

    monkeypatch.setattr(worker, "make_verified_steps", make_first_steps)
    monkeypatch.setattr(
        worker, "verify_again", Mock(return_value=RepeatedVerification(passed=True))
    )
    commands = [{"turn": 1}, {"turn": 1}, {"finish": True}]
    result = worker.measure_time(adapter, Task("", "time"), Result(), ignore, commands)
    assert len(steps) > first_steps, "steps were timed after the peaks were read"
    assert result.times.cold_peaks == {"allocator.in_use": first_steps * MIB}


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_case_is_measured_on_a_real_gpu(framework, environment, results):
    case = Case("transformer", framework, "train", "fp32", 4, "tiny")
    record = measure_alone(case, "s", environment[framework], Options(), results)
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
