"""Steps on a fake GPU: both clocks, and which instruments are read."""

from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest

from framebench.engine.environments import Environment
from framebench.engine.runner import Options
from framebench.instruments import nvml
from framebench.records.record import Record
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
    """The fake GPU's clock reads 1.5 ms for each turn, whose steps are queued together."""
    timing = Timing(FakeGpuAdapter())
    one_step = timing.turn(1)
    three_steps = timing.turn(3)
    assert one_step["device_s"] == 0.0015
    assert one_step["wall_s"] > 0
    assert three_steps["device_s"] == 0.0005, "the mean of its steps"
    assert timing.summarize(TimeResult()).timed_steps == 4


def test_a_turn_waits_once_and_synced_steps_wait_one_by_one():
    adapter = FakeGpuAdapter()
    calls = []
    adapter.synchronize = partial(calls.append, "wait")
    adapter.make_stopwatch = ignore
    adapter.one_step = partial(calls.append, "step")
    timing = Timing(adapter)
    timing.turn(3)
    timing.time_synced_steps(3)
    turn = ["step", "step", "step", "wait"]
    synced = ["step", "wait"] * 3
    assert calls == turn + synced
    assert timing.summarize(TimeResult()).timed_steps == 3, "synced steps are not in the times"


def test_host_memory_is_not_read_on_a_gpu():
    result = worker.measure_memory(FakeGpuAdapter(), Task("", "memory"), ignore)
    assert result.peaks == FakeGpuAdapter().read_peaks()
    assert result.allocator == FakeGpuAdapter().read_counters()


def test_cold_peaks_are_the_allocators_after_the_first_steps(monkeypatch):
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
        verified = ObservedSteps(
            seconds=[0.1],
            observed=Observed(values={}),
            tolerances=Tolerances(values={}, tensors={}, update=0.0),
        )
        return verified, Verification(passed=True)

    monkeypatch.setattr(worker, "make_verified_steps", make_first_steps)
    monkeypatch.setattr(
        worker, "verify_again", Mock(return_value=RepeatedVerification(passed=True))
    )
    commands = [{"turn": 1}, {"turn": 1}, {"finish": True}]
    result = worker.measure_time(adapter, Task("", "time"), Result(), ignore, commands)
    assert len(steps) > first_steps, "steps were timed after the peaks were read"
    assert result.times.cold_peaks == {"allocator.in_use": first_steps * MIB}


def measure_tiny(framework: str, environment: dict[str, Environment], results: Path) -> Record:
    """Return the record of a tiny case, which must be right."""
    case = Case("transformer", framework, "train", "fp32", 4, "tiny")
    record = measure_alone(case, "s", environment[framework], Options(), results)
    assert record.status == "ok", record.reason
    return record


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_record_names_the_real_gpu_even_if_the_framework_is_a_build_for_the_cpu(
    framework, environment, results
):
    record = measure_tiny(framework, environment, results)
    assert record.provenance.gpu["before"]["name"] in nvml.list_gpus()


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_peaks_and_times_on_a_real_gpu_are_the_devices(framework, environment, results):
    record = measure_tiny(framework, environment, results)
    if record.provenance.hardware["device"] == "cpu":
        pytest.skip(f"this {framework} is a build for the CPU")
    assert record.peak_instrument == "allocator.in_use"
    assert record.peaks["allocator.reserved"] >= record.peaks["allocator.in_use"] > 0
    assert "host.rss" not in record.peaks
    assert record.cold_peaks["allocator.in_use"] >= record.peaks["allocator.in_use"]
    # measured, or under `device.process` the reason why not
    assert "context_bytes" in record.allocator or record.provenance.gpu["device.process"]
    if framework == "torch":
        assert sum(record.device_step_s) <= sum(record.step_s[-len(record.device_step_s) :])
    else:
        assert record.allocator["programs_from_cache"] > 0
