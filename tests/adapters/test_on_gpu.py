"""Steps on a fake GPU: both clocks, and which instruments are read."""

from functools import partial

import pytest

from framebench.engine.runner import Options
from framebench.instruments import nvml
from framebench.suite.case import Case
from framebench.suite.protocol import Task
from framebench.suite.result import TimeResult
from framebench.worker import worker
from framebench.worker.stepping import Timing
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


def test_cold_peaks_are_those_of_the_allocator():
    assert worker.read_cold_peaks(FakeGpuAdapter()) == {"allocator.in_use": 5}


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_record_on_a_real_gpu_has_the_devices_peaks_and_times(framework, environment, results):
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
    # measured, or under `device.process` the reason why not
    assert "context_bytes" in record.allocator or record.provenance.gpu["device.process"]
    if framework == "torch":
        assert sum(record.device_step_s) <= sum(record.step_s[-len(record.device_step_s) :])
    else:
        assert record.allocator["programs_from_cache"] > 0
