"""The code for CUDA without a GPU.

It is fed with what others recorded on theirs (`recorded.py`), and with what NVML returns by
NVIDIA's NVML API reference and nvidia-ml-py (bytes, MHz, milliwatts, millijoules,
NVMLError_NotSupported). What the frameworks count there is tested in `test_cuda_counters.py`.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from framebench.engine import environments
from framebench.engine.environments import Environment
from framebench.engine.recording import Context, Samples, add_memory, make_record
from framebench.engine.runner import CaseOutcome, Options
from framebench.engine.timed_process import TimedProcess, Variant
from framebench.instruments import limits, nvml
from framebench.instruments.nvml import ProcessPeak
from framebench.records import provenance
from framebench.records.record import Record, Turns
from framebench.suite.protocol import Turn
from framebench.suite.result import MemoryResult, Result, TimeResult
from framebench.suite.selectors import parse
from tests.adapters import recorded
from tests.adapters.fake_gpu import GIB, FakeNvml, refuse
from tests.processes import run_inside


def list_used_names(package: str) -> list[str]:
    """Return the attributes of a package that the harness uses, such as `cuda.memory_stats`."""
    names = set()
    for path in (provenance.ROOT / "framebench").rglob("*.py"):
        names.update(re.findall(rf"\b{package}\.((?:cuda\.)?\w+)", path.read_text()))
    return sorted(names)


def test_pynvml_has_every_function_that_is_called() -> None:
    import pynvml

    found = list_used_names("pynvml")
    assert "nvmlDeviceGetTotalEnergyConsumption" in found
    assert [name for name in found if not hasattr(pynvml, name)] == []


def test_torch_has_every_function_of_torch_cuda_that_is_called(
    environment: dict[str, Environment],
) -> None:
    found = [name for name in list_used_names("torch") if name.startswith("cuda.")]
    assert "cuda.memory_stats" in found
    program = Path(__file__).parent / "programs" / "cuda_contract_named.py"
    assert not any(run_inside(environment["torch"], program, *found))


def test_the_state_has_what_nvml_supports_and_nothing_else(fake_nvml: FakeNvml) -> None:
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


def test_the_workers_gpu_is_the_first_visible_one(
    fake_nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert nvml.find_gpu() == ("index", 0)
    for text, handle in (("3,1", ("index", 3)), ("GPU-5c8f", ("uuid", "GPU-5c8f")), ("", None)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", text)
        assert nvml.find_gpu() == handle


def test_the_memory_of_the_first_visible_gpu_is_read(
    fake_nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_nvml.nvmlDeviceGetMemoryInfo = lambda h: SimpleNamespace(total=(1 + h[1]) * GIB)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,0")
    assert limits.read_gpu_memory() == 4 * GIB
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert limits.read_gpu_memory() is None


def after_one_turn(steps: int, queues: bool, orders: list[dict[str, int]]) -> TimedProcess:
    """A variant whose worker answers what it was told last."""
    answers: dict[str, Any] = {
        "turn": {"wall_s": 1.0, "device_s": None, "instructions": None},
        "synced": 1.5,
    }
    worker: Any = SimpleNamespace(
        send=orders.append, receive=lambda *_: {name: answers[name] for name in orders[-1]}
    )
    live = TimedProcess(
        Variant(parse("transformer/torch/train/fp32/b4/tiny"), environments.describe("torch")),
        Options(),
        Path(),
        print,
    )
    live.worker, live.expected_turn_s, live.steps, live.queues = worker, 1.0, steps, queues
    live.turn(0, 0.0)
    assert live.turn_rounds == [0]
    return live


@pytest.mark.parametrize("queues", [False, True])
def test_energy_is_read_around_turns(fake_nvml: FakeNvml, queues: bool) -> None:
    assert after_one_turn(8, queues, []).joules == 350.0


@pytest.mark.parametrize(("steps", "waited_for"), [(8, 4), (2, 2)])
def test_a_device_with_a_queue_also_makes_synced_steps(steps: int, waited_for: int) -> None:
    orders: list[dict[str, int]] = []
    assert after_one_turn(steps, True, orders).synced_s == [1.5]
    assert orders == [{"turn": steps}, {"synced": waited_for}]
    orders.clear()
    assert after_one_turn(steps, False, orders).synced_s == []
    assert orders == [{"turn": steps}], "elsewhere every step is"


def test_energy_is_0_without_a_counter(fake_nvml: FakeNvml) -> None:
    fake_nvml.nvmlDeviceGetTotalEnergyConsumption = refuse
    assert after_one_turn(8, True, []).joules == 0.0


@pytest.mark.parametrize(
    ("running", "peak", "said"),
    [
        ([SimpleNamespace(pid=42, usedGpuMemory=5)], 5, None),
        ([SimpleNamespace(pid=42, usedGpuMemory=None)], None, "does not tell its memory"),
        (
            [SimpleNamespace(pid=1, usedGpuMemory=5)],
            None,
            "a container with process numbers of its own",
        ),
        ([], None, "a container that hides them"),
    ],
)
def test_a_process_that_nvml_does_not_show_has_a_reason(
    fake_nvml: FakeNvml, running: list[Any], peak: int | None, said: str | None
) -> None:
    fake_nvml.nvmlDeviceGetComputeRunningProcesses = lambda handle: running
    process_peak = ProcessPeak(42)
    process_peak.take_sample([("index", 0)])
    assert process_peak.peak == peak
    assert (process_peak.note is None) if said is None else (said in (process_peak.note or ""))


def test_a_container_with_its_own_process_numbers_is_recognized(fake_nvml: FakeNvml) -> None:
    own, listed = recorded.NVML_IN_A_CONTAINER["own"], recorded.NVML_IN_A_CONTAINER["listed"]
    fake_nvml.nvmlDeviceGetComputeRunningProcesses = lambda handle: [
        SimpleNamespace(pid=p, usedGpuMemory=b) for p, b in listed
    ]
    process_peak = ProcessPeak(own)
    process_peak.take_sample([("index", 0)])
    assert process_peak.peak is None, "no other process's memory is taken for its own"
    assert "process numbers of its own" in (process_peak.note or "")


@pytest.mark.parametrize(
    ("before", "most", "after", "risen"),
    [
        (1, 5, 1, 4),
        (1, 5, 1.01, 4),
        (3, 5, 3, None),
        (1, 5, 2, None),
        (None, 5, 1, None),
        (1, 1, 1, None),
    ],
    ids=[
        "idle",
        "about idle",
        "others before",
        "others after",
        "others beside",
        "nothing ran there",
    ],
)
def test_the_gpus_memory_stands_for_hidden_processes(
    fake_nvml: FakeNvml, before: float | None, most: float, after: float, risen: float | None
) -> None:
    fake_nvml.nvmlDeviceGetComputeRunningProcesses = lambda handle: []
    held = most
    fake_nvml.nvmlDeviceGetMemoryInfo = lambda h: SimpleNamespace(
        total=139 * GIB, used=int(held * GIB)
    )
    process_peak = ProcessPeak(42, before and int(before * GIB))
    with process_peak:
        process_peak.take_sample([("index", 0)])
        held = after
    assert process_peak.peak is None
    assert process_peak.growth == (risen and risen * GIB)
    assert ("device.card" in (process_peak.note or "")) == (risen is not None)


def record_on_a_gpu(timed_s: float = 2.0) -> Record:
    """The record of a pair of workers on a GPU."""
    times = TimeResult(
        first_step_s=9.0, cold_peaks={"allocator.in_use": 30}, timed_steps=20, timed_s=timed_s
    )
    turns = [Turn(wall_s=0.1, device_s=0.09)] * 20
    memory = MemoryResult(
        peaks={"allocator.in_use": 10, "allocator.reserved": 12},
        cold_peaks={"allocator.in_use": 11, "allocator.reserved": 14, "compiler.plan": 9},
        allocator={"ooms": 0},
    )
    case = parse("transformer/torch/train/fp32/b4/tiny")
    context = Context(case, environments.describe("torch"), Options(), "s", Path("nowhere"))
    block = Turns(
        block="b",
        arm=0,
        arms=[case.id],
        seed=0,
        steps=1,
        round=[],
        at_s=[],
        reference_s=[],
        reference_flop=0.0,
    )
    of_the_time = CaseOutcome(result=Result(times=times), joules=1400.0)
    of_the_memory = CaseOutcome(result=Result(memory=memory), device_peaks={"device.process": 100})
    timed = make_record(context, of_the_time, turns=block, samples=Samples(turns, []))
    return add_memory(timed, of_the_memory)


def test_a_record_joins_the_two_processes_of_a_gpu_case() -> None:
    record = record_on_a_gpu()
    assert record.status == "ok"
    assert record.energy_j_per_step == 70.0
    assert record.device_step_s == [0.09] * 20
    assert record.cold_peaks == {
        "allocator.in_use": 30,
        "allocator.reserved": 14,
        "compiler.plan": 9,
    }
    assert record.peaks == {"allocator.in_use": 10, "allocator.reserved": 12, "device.process": 100}
    assert record.allocator == {"ooms": 0, "context_bytes": 86}, "beyond the pool at its largest"


def test_energy_of_too_short_a_time_is_left_out() -> None:
    assert record_on_a_gpu(timed_s=0.4).energy_j_per_step is None
