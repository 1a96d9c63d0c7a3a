"""What is read of a GPU, without one: NVML as its API reference and nvidia-ml-py have it."""

import re
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pynvml
import pytest

from framebench.engine import environments
from framebench.engine.recording import Context, add_memory, make_record
from framebench.engine.runner import CaseOutcome, Options
from framebench.engine.timed_process import TimedProcess, Variant
from framebench.instruments import limits, nvml
from framebench.instruments.nvml import ProcessPeak
from framebench.records.provenance import ROOT
from framebench.suite.result import MemoryResult, Result, TimeResult
from framebench.suite.selectors import parse
from tests.adapters.fake_gpu import GIB, RECORDED

CASE = parse("transformer/torch/train/fp32/b4/tiny")


def test_pynvml_has_every_function_that_is_called():
    names = set()
    for path in (ROOT / "framebench").rglob("*.py"):
        names.update(re.findall(r"\bpynvml\.(\w+)", path.read_text()))
    assert "nvmlDeviceGetTotalEnergyConsumption" in names
    assert [name for name in names if not hasattr(pynvml, name)] == []


@pytest.mark.usefixtures("fake_nvml")
def test_the_state_has_only_readings_that_nvml_supports():
    assert nvml.read_state() == {
        "name": "NVIDIA H200",
        "driver": "580.1",
        "cuda_of_the_driver": "13.0",
        "memory_bytes": 139 * GIB,
        "used_bytes": GIB,
        "sm_clock_mhz": 1980,
        "memory_clock_mhz": 3201,
        "power_limit_w": 700.0,
        "processes": 1,
    }


@pytest.mark.parametrize(
    ("visible", "handle", "memory"),
    [("3,1", ("index", 3), 4 * GIB), ("GPU-5c8f", ("uuid", "GPU-5c8f"), GIB), ("", None, None)],
)
def test_the_workers_gpu_is_the_first_visible_one(visible, handle, memory, fake_nvml, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    sizes = {("index", 3): 4 * GIB, ("uuid", "GPU-5c8f"): GIB}
    fake_nvml.nvmlDeviceGetMemoryInfo = lambda h: SimpleNamespace(total=sizes[h], used=0)
    assert nvml.find_gpu() == handle
    assert limits.read_gpu_memory() == memory


@pytest.mark.parametrize(("steps", "queues", "synced"), [(8, True, 4), (2, True, 2), (8, False, 0)])
@pytest.mark.usefixtures("fake_nvml")
def test_a_turn_reads_energy_and_makes_synced_steps(steps, queues, synced):
    answers = {"turn": {"wall_s": 1.0, "device_s": None}, "synced": 1.5}
    orders = []

    def answer(*_):
        """Answer the last order, as a worker does."""
        return {name: answers[name] for name in orders[-1]}

    timed = TimedProcess(Variant(CASE, environments.describe("torch")), Options(), Path(), print)
    timed.worker = SimpleNamespace(send=orders.append, receive=answer)
    timed.expected_turn_s = 1.0
    timed.steps = steps
    timed.queues = queues

    timed.turn(0, 0.0)

    assert timed.joules == 350.0  # between the two readings of `fake_gpu.py`
    if synced:
        assert orders == [{"turn": steps}, {"synced": synced}]
        assert timed.synced_s == [answers["synced"]]
    else:
        assert orders == [{"turn": steps}]
        assert timed.synced_s == []


@pytest.mark.parametrize(
    ("own", "listed", "peak", "reason"),
    [
        (42, [(1, 10**12), (42, 5)], 5, None),
        (42, [(42, None)], None, "does not tell its memory"),
        (42, [], None, "a container that hides them"),
        (
            RECORDED["container"]["own"],
            [(RECORDED["container"]["listed"], RECORDED["container"]["bytes"])],
            None,
            "a container with process numbers of its own",
        ),
    ],
)
def test_a_process_that_nvml_does_not_show_has_a_reason(own, listed, peak, reason, fake_nvml):
    running = [SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in listed]
    fake_nvml.nvmlDeviceGetComputeRunningProcesses = Mock(return_value=running)
    process_peak = ProcessPeak(own)
    process_peak.take_sample([("index", 0)])
    assert process_peak.peak == peak
    assert (reason or "") in (process_peak.note or "")


def test_the_peak_of_a_process_is_the_largest_sample(fake_nvml):
    samples = [100, 700, None, 300]
    running = [[SimpleNamespace(pid=42, usedGpuMemory=size)] for size in samples]
    fake_nvml.nvmlDeviceGetComputeRunningProcesses = Mock(side_effect=running)
    process_peak = ProcessPeak(42)
    for _sample in samples:
        process_peak.take_sample([("index", 0)])
    assert process_peak.peak == 700


@pytest.mark.parametrize(
    ("before", "most", "after", "risen"),
    [
        pytest.param(1, 5, 1, 4, id="idle"),
        pytest.param(1, 5, 1.01, 4, id="about idle"),
        pytest.param(3, 5, 3, None, id="others before"),
        pytest.param(1, 5, 2, None, id="others after"),
        pytest.param(None, 5, 1, None, id="others beside"),
        pytest.param(1, 1, 1, None, id="nothing ran there"),
    ],
)
def test_the_gpus_memory_stands_for_hidden_processes(fake_nvml, before, most, after, risen):
    readings = iter([most, after])

    def read_memory(handle):
        return SimpleNamespace(total=139 * GIB, used=int(next(readings, after) * GIB))

    fake_nvml.nvmlDeviceGetComputeRunningProcesses = Mock(return_value=[])
    fake_nvml.nvmlDeviceGetMemoryInfo = read_memory
    process_peak = ProcessPeak(42, before and int(before * GIB))
    with process_peak:
        process_peak.take_sample([("index", 0)])
    assert process_peak.peak is None
    assert process_peak.growth == (risen and risen * GIB)


@pytest.mark.parametrize(("timed_s", "joules_per_step"), [(2.0, 70.0), (0.4, None)])
def test_a_record_joins_the_two_processes_of_a_gpu_case(timed_s, joules_per_step):
    """The energy of too short a time is left out."""
    times = TimeResult(cold_peaks={"allocator.in_use": 30}, timed_steps=20, timed_s=timed_s)
    memory = MemoryResult(
        peaks={"allocator.in_use": 10, "allocator.reserved": 12},
        cold_peaks={"allocator.in_use": 11, "allocator.reserved": 14},
        allocator={"ooms": 0},
    )
    context = Context(CASE, environments.describe("torch"), Options(), "s", Path("nowhere"))
    timed = make_record(context, CaseOutcome(result=Result(times=times), joules=1400.0))
    of_the_memory = CaseOutcome(result=Result(memory=memory), device_peaks={"device.process": 100})
    record = add_memory(timed, of_the_memory)
    assert record.energy_j_per_step == joules_per_step
    assert record.cold_peaks == {"allocator.in_use": 30, "allocator.reserved": 14}
    assert record.peaks == {"allocator.in_use": 10, "allocator.reserved": 12, "device.process": 100}
    assert record.allocator == {"ooms": 0, "context_bytes": 86}, "beyond the pool at its largest"
