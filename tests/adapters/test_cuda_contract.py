"""The CUDA code without a card: fed with what others recorded on theirs (`recorded.py`), and with what NVML says that it
returns: units and errors are those of NVIDIA's NVML API reference by way of nvidia-ml-py (bytes, MHz, milliwatts, millijoules,
NVMLError_NotSupported). What the frameworks count there: `tests/adapters/test_cuda_counters.py`.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from framebench.adapters.base import Adapter, Batch, Evidence, State
from framebench.engine import blocks, environments, runner, supervisor
from framebench.engine.environments import Environment
from framebench.engine.runner import Options
from framebench.engine.supervisor import Outcome
from framebench.engine.timed_process import Arm, TimedProcess
from framebench.features.doctor import cuda_check
from framebench.instruments import limits, nvml
from framebench.instruments.nvml import ProcessPeak
from framebench.records import provenance
from framebench.suite.case import Case
from framebench.suite.protocol import Task, turns
from framebench.suite.selectors import parse
from framebench.worker import worker
from framebench.worker.stepping import Timing
from tests.adapters import recorded
from tests.processes import run_inside

GIB = 2**30


class NotSupported(Exception):
    """Stands for pynvml.NVMLError_NotSupported, a subclass of NVMLError."""


def refuse(*_: Any) -> None:
    raise NotSupported("Not Supported")


class FakeNvml(SimpleNamespace):
    """One H200 by NVML's reference; functions that are not given are not supported."""

    NVMLError = NotSupported
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __getattr__(self, name: str) -> Any:
        return refuse


def h200(**changes: Any) -> FakeNvml:
    joules = iter([1_000_000, 1_350_000])
    functions: dict[str, Any] = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda i: ("index", i),
        "nvmlDeviceGetHandleByUUID": lambda u: ("uuid", u),
        "nvmlDeviceGetName": lambda h: "NVIDIA H200",
        "nvmlSystemGetDriverVersion": lambda: "580.1",
        "nvmlSystemGetCudaDriverVersion_v2": lambda: 13000,
        "nvmlDeviceGetMemoryInfo": lambda h: SimpleNamespace(total=139 * GIB, used=GIB, free=138 * GIB),
        "nvmlDeviceGetClockInfo": lambda h, clock: {1: 1980, 2: 3201}[clock],
        "nvmlDeviceGetPowerManagementLimit": lambda h: 700_000,
        "nvmlDeviceGetComputeRunningProcesses": lambda h: [SimpleNamespace(pid=7, usedGpuMemory=3 * GIB)],
        "nvmlDeviceGetTotalEnergyConsumption": lambda h: next(joules),
    }
    return FakeNvml(**(functions | changes))


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    found = h200()
    monkeypatch.setitem(sys.modules, "pynvml", found)  # type: ignore[arg-type]
    monkeypatch.setattr(nvml, "gpus", lambda: ("NVIDIA H200",))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return found


def named_in(package: str) -> list[str]:
    """Every attribute of the package that the harness names, such as `nvmlInit` or `cuda.memory_stats`."""
    sources = (path.read_text() for path in (provenance.ROOT / "framebench").rglob("*.py"))
    return sorted({name for text in sources for name in re.findall(rf"\b{package}\.((?:cuda\.)?\w+)", text)})


def test_the_library_has_every_function_of_nvml_that_is_called() -> None:
    import pynvml

    found = named_in("pynvml")
    assert "nvmlDeviceGetTotalEnergyConsumption" in found
    assert [name for name in found if not hasattr(pynvml, name)] == []


def test_torch_has_every_function_of_cuda_that_is_called(environment: dict[str, Environment]) -> None:
    found = [name for name in named_in("torch") if name.startswith("cuda.")]
    assert "cuda.memory_stats" in found
    program = Path(__file__).parent / "programs" / "cuda_contract_named.py"
    assert not any(run_inside(environment["torch"], program, *found))


def test_the_state_has_what_the_card_tells_and_nothing_else(card: FakeNvml) -> None:
    assert nvml.state() == {
        "name": "NVIDIA H200", "driver": "580.1", "cuda_of_the_driver": "13.0", "memory_bytes": 139 * GIB, "used_bytes": GIB,
        "sm_clock_mhz": 1980, "memory_clock_mhz": 3201, "power_limit_w": 700.0, "processes": 1,
    }  # fmt: skip


def test_the_worker_s_card_is_the_first_visible(card: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    assert nvml.card() == ("index", 0)
    for text, handle in (("3,1", ("index", 3)), ("GPU-5c8f", ("uuid", "GPU-5c8f")), ("", None)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", text)
        assert nvml.card() == handle


def test_a_share_of_the_card_is_of_the_first_visible(card: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    card.nvmlDeviceGetMemoryInfo = lambda h: SimpleNamespace(total=(1 + h[1]) * GIB)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,0")
    assert limits.card_bytes() == 4 * GIB
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert limits.card_bytes() is None


def after_one_turn(steps: int, queues: bool, orders: list[dict[str, int]]) -> TimedProcess:
    """An arm whose worker answers what it was told last."""
    answers: dict[str, Any] = {"turn": {"wall_s": 1.0, "device_s": None, "instructions": None}, "synced": 1.5}
    worker: Any = SimpleNamespace(tell=orders.append, hear=lambda *_: {name: answers[name] for name in orders[-1]})
    live = TimedProcess(
        Arm(parse("transformer/torch/train/fp32/b4/tiny"), environments.describe("torch")), Options(), Path(), print
    )
    live.worker, live.turn_s, live.steps, live.queues = worker, 1.0, steps, queues
    live.turn(0, 0.0)
    assert live.round == [0]
    return live


@pytest.mark.parametrize("queues", [False, True])
def test_energy_is_that_of_the_turns(card: FakeNvml, queues: bool) -> None:
    assert after_one_turn(8, queues, []).joules == 350.0


@pytest.mark.parametrize(("steps", "waited_for"), [(8, 4), (2, 2)])
def test_on_a_device_a_few_steps_are_also_waited_for_one_by_one(steps: int, waited_for: int) -> None:
    orders: list[dict[str, int]] = []
    assert after_one_turn(steps, True, orders).synced_s == [1.5]
    assert orders == [{"turn": steps}, {"synced": waited_for}]
    orders.clear()
    assert after_one_turn(steps, False, orders).synced_s == []
    assert orders == [{"turn": steps}], "elsewhere every step is"


def test_a_card_without_an_energy_counter_gives_none(card: FakeNvml) -> None:
    card.nvmlDeviceGetTotalEnergyConsumption = refuse
    assert after_one_turn(8, True, []).joules == 0.0


@pytest.mark.parametrize(
    ("running", "peak", "said"),
    [
        ([SimpleNamespace(pid=42, usedGpuMemory=5)], 5, None),
        ([SimpleNamespace(pid=42, usedGpuMemory=None)], None, "does not tell its memory"),
        ([SimpleNamespace(pid=1, usedGpuMemory=5)], None, "a container with process numbers of its own"),
        ([], None, "a container that hides them"),
    ],
)
def test_why_a_process_was_not_seen(card: FakeNvml, running: list[Any], peak: int | None, said: str | None) -> None:
    card.nvmlDeviceGetComputeRunningProcesses = lambda handle: running
    seen = ProcessPeak(42)
    seen.look([("index", 0)])
    assert seen.peak == peak
    assert (seen.note is None) if said is None else (said in (seen.note or ""))


def test_a_container_s_own_numbers(card: FakeNvml) -> None:
    own, listed = recorded.NVML_IN_A_CONTAINER["own"], recorded.NVML_IN_A_CONTAINER["listed"]
    card.nvmlDeviceGetComputeRunningProcesses = lambda handle: [SimpleNamespace(pid=p, usedGpuMemory=b) for p, b in listed]
    seen = ProcessPeak(own)
    seen.look([("index", 0)])
    assert seen.peak is None, "no other process's memory is taken for its own"
    assert "process numbers of its own" in (seen.note or "")


@pytest.mark.parametrize(
    ("before", "most", "after", "risen"),
    [(1, 5, 1, 4), (1, 5, 1.01, 4), (3, 5, 3, None), (1, 5, 2, None), (None, 5, 1, None), (1, 1, 1, None)],
    ids=["idle", "about idle", "others before", "others after", "others beside", "nothing ran there"],
)
def test_where_processes_are_hidden_the_card_tells(
    card: FakeNvml, before: float | None, most: float, after: float, risen: float | None
) -> None:
    card.nvmlDeviceGetComputeRunningProcesses = lambda handle: []
    held = most
    card.nvmlDeviceGetMemoryInfo = lambda h: SimpleNamespace(total=139 * GIB, used=int(held * GIB))
    seen = ProcessPeak(42, before and int(before * GIB))
    with seen:
        seen.look([("index", 0)])
        held = after
    assert seen.peak is None
    assert seen.risen == (risen and risen * GIB)
    assert ("device.card" in (seen.note or "")) == (risen is not None)


def outcomes(**timed: Any) -> dict[str, Outcome]:
    """Of a worker pair on a card."""
    time_half = {"first_step_s": 9.0, "step_s": [0.1] * 20, "device_step_s": [0.09] * 20, "timed_steps": 20, "timed_s": 2.0}
    memory_half = {
        "peaks": {"allocator.in_use": 10, "allocator.reserved": 12},
        "cold_peaks": {"allocator.in_use": 11, "allocator.reserved": 14, "compiler.plan": 9},
        "allocator": {"ooms": 0},
    }
    first = time_half | {"cold_peaks": {"allocator.in_use": 30}} | timed
    return {
        "time": Outcome(result=first, joules=1400.0),
        "memory": Outcome(result=memory_half, on_device={"device.process": 100}),
    }


def test_the_halves_of_a_gpu_case_joined() -> None:
    fields, status, _ = runner.join(outcomes())
    assert status == "ok"
    assert fields["energy_j_per_step"] == 70.0
    assert fields["cold_peaks"] == {"allocator.in_use": 30, "allocator.reserved": 14, "compiler.plan": 9}
    assert fields["peaks"] == {"allocator.in_use": 10, "allocator.reserved": 12, "device.process": 100}
    assert fields["allocator"] == {"ooms": 0, "context_bytes": 86}, "beyond the pool at its largest"


def test_too_short_a_time_has_no_energy() -> None:
    assert "energy_j_per_step" not in runner.join(outcomes(timed_s=0.4))[0]


def spoken(final: dict[str, Any], folder: Path, tail: str = "") -> Outcome:
    log = folder / "log"
    log.write_text(tail)
    child: Any = SimpleNamespace(phase="import", final=final, log=log, process=SimpleNamespace(returncode=1), expired_s=None)
    return supervisor.classify(child, False)


def test_a_framework_without_cuda_makes_gpu_cells_unsupported(tmp_path: Path) -> None:
    error = {
        "type": "NoDevice",
        "message": "needs a GPU, and this torch (2.13.0+cpu) finds none",
        "oom": False,
        "no_device": True,
    }
    found = spoken({"error": error}, tmp_path)
    assert (found.status, found.reason) == ("unsupported", error["message"])


def test_the_compiler_s_reason_is_told(tmp_path: Path) -> None:
    error = {"type": "RuntimeError", "message": "Compile error", "oom": False}
    found = spoken({"error": error}, tmp_path, recorded.JITTOR_BUILD)
    assert found.status == "crashed"
    assert "unsupported GNU version" in (found.reason or "")
    assert "compiler" not in (spoken({"error": error}, tmp_path, "Traceback\nRuntimeError: Compile error").reason or "")


@pytest.mark.parametrize("said", recorded.OUT_OF_MEMORY.values(), ids=recorded.OUT_OF_MEMORY.keys())
def test_memory_that_ran_out_on_a_card(said: str, tmp_path: Path) -> None:
    """Whether the framework raises, or dies with this in its log."""
    assert limits.ran_out(RuntimeError(said), limited=False)
    assert spoken({}, tmp_path, f"{said}\nterminate called after throwing an instance of 'std::runtime_error'").status == "oom"


def test_what_jittor_s_source_says_of_a_full_card() -> None:
    """src/mem/allocator/cuda_device_allocator.cc of 1.3.10.0 and 1.3.11.0; nobody was found to have recorded it."""
    assert limits.ran_out(RuntimeError("Unable to alloc cuda device memory for size 1048576"), limited=False)


@pytest.mark.parametrize("said", recorded.OTHERWISE.values(), ids=recorded.OTHERWISE.keys())
def test_what_else_went_wrong_on_a_card(said: str, tmp_path: Path) -> None:
    assert not limits.ran_out(RuntimeError(said), limited=True)
    assert spoken({}, tmp_path, said).status == "crashed"


class OnCard(Adapter):
    """A framework with a card, whose events say 1.5 ms for every step; it has no model."""

    def __init__(self) -> None:
        self.case = parse("transformer/torch/eval/no_grad/b4/tiny")
        self.proofs, self.after_step, self.spent, self.steps = {}, [], defaultdict(float), 0
        self.answers, self.outputs = Counter(), 0

    def make(self) -> None: ...
    def put(self, x: np.ndarray, y: np.ndarray) -> Batch: ...  # type: ignore[empty-body]
    def one_step(self) -> None: ...
    def synchronize(self) -> None: ...
    def logits(self) -> np.ndarray: ...  # type: ignore[empty-body]
    def weights(self) -> Iterator[tuple[str, np.ndarray]]: ...  # type: ignore[empty-body]
    def states(self) -> Iterator[State]: ...  # type: ignore[empty-body]
    def restore(self) -> None: ...
    def allocate(self, size: int) -> None: ...
    def parameter_count(self) -> int: ...  # type: ignore[empty-body]
    def observe(self) -> Evidence:
        return {}

    def loss(self) -> float:
        return 1.0

    def live_bytes(self) -> int:
        return 3

    def own_peaks(self) -> dict[str, int]:
        return {"allocator.in_use": 5, "compiler.plan": 4}

    def counters(self) -> dict[str, int]:
        return {"ooms": 0}

    def events(self) -> Any:
        return SimpleNamespace(start=lambda: None, stop=lambda: None, seconds=lambda: 0.0015)

    def versions(self) -> dict[str, str]:
        return {"torch": "2"}

    def device(self) -> str:
        return "NVIDIA H200"


def test_steps_are_timed_by_both_clocks() -> None:
    timing = Timing(OnCard())
    found = timing.turn(1)
    assert found["device_s"] == 0.0015
    assert found["wall_s"] > 0
    assert timing.turn(3)["device_s"] == 0.0005, "three steps are queued, and waited for once"
    assert timing.summary()["timed_steps"] == 4


def test_queued_steps_and_those_that_are_waited_for_one_by_one() -> None:
    """A device that works on while the host queues: 5 ms a step, and 20 ms for each time that it is waited for."""
    card = OnCard()
    card.synchronize = lambda: time.sleep(0.02)  # type: ignore[method-assign]
    card.events = lambda: None  # type: ignore[method-assign]
    card.one_step = lambda: time.sleep(0.005)  # type: ignore[method-assign]
    timing = Timing(card)
    assert 0.010 <= timing.turn(4)["wall_s"] < 0.02 < 0.025 <= timing.synced(4)
    assert timing.summary()["timed_steps"] == 4


def test_shares_are_of_the_steps_of_turns_alone() -> None:
    """Half of each step waits for data, also of those between the turns, which no share is of."""
    card = OnCard()
    timing = Timing(card)

    def one_step() -> None:
        time.sleep(0.004)
        card.spent["wait"] += 0.002

    card.one_step = one_step  # type: ignore[method-assign]
    for _ in range(4):
        timing.turn(4)
        timing.synced(4)
    assert 0 < timing.summary()["shares"]["wait"] <= 0.5


def test_host_memory_says_nothing_about_tensors_on_a_card() -> None:
    found = worker.measure_memory(OnCard(), Task("", "memory"), lambda message: None)
    assert found["peaks"] == {"allocator.in_use": 5, "compiler.plan": 4}
    assert found["allocator"] == {"ooms": 0}


def test_the_first_step_that_compiles_has_the_cold_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "first_steps", lambda adapter: ([0.1], {}))
    monkeypatch.setattr(worker, "verify", lambda *_: {"passed": True})
    monkeypatch.setattr(worker, "again", lambda *_: {"passed": True})
    found = worker.measure_time(OnCard(), Task("", "time"), lambda message: None, map(json.loads, turns(3).splitlines()))
    assert found["cold_peaks"] == {"allocator.in_use": 5}


def test_jittor_gets_a_compiler_where_a_card_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The one with CUDA's libraries beside it, not a script on the path that calls it; or what Jittor's own variable says."""
    monkeypatch.delenv("nvcc_path", raising=False)
    jittor = environments.describe("jittor")
    monkeypatch.setattr(nvml, "gpus", lambda: ())
    with monkeypatch.context() as asked:
        asked.setenv("nvcc_path", "/opt/cuda/bin/nvcc")
        assert jittor.variables()["nvcc_path"] == ""
    monkeypatch.setattr(nvml, "gpus", lambda: ("NVIDIA A100",))
    script, compiler, library = (tmp_path / name for name in ("bin/nvcc", "cuda/bin/nvcc", "cuda/lib64/libcudart.so"))
    for file in (script, compiler, library):
        file.parent.mkdir(parents=True, exist_ok=True)
    for file in (script, compiler):
        file.touch()
    monkeypatch.setattr(environments.shutil, "which", lambda name: str(script))
    monkeypatch.setattr(environments, "USUAL_NVCC", compiler)
    assert jittor.variables()["nvcc_path"] == str(script)
    library.touch()
    assert jittor.variables()["nvcc_path"] == str(compiler)
    monkeypatch.setenv("nvcc_path", "")
    assert jittor.variables()["nvcc_path"] == ""


def test_what_is_missing_for_cuda_is_named(environment: dict[str, Environment], monkeypatch: pytest.MonkeyPatch) -> None:
    gone = FakeNvml(nvmlInit=refuse)
    monkeypatch.setitem(sys.modules, "pynvml", gone)  # type: ignore[arg-type]
    monkeypatch.setattr(nvml, "gpus", lambda: ())
    monkeypatch.setattr(cuda_check.shutil, "which", lambda name: None)
    found = {n.what: n for n in cuda_check.needs({f: e.python for f, e in environment.items()})}
    said = {
        "CUDA: driver and NVML": "install NVIDIA's driver",
        "CUDA: device": "no card",
        "CUDA: nvcc for jittor": "no nvcc on the path",
    }
    for what, text in said.items():
        assert not found[what].there
        assert text in found[what].detail


@pytest.mark.parametrize(
    ("has", "there", "said"),
    [
        ({"torch": "2.13.0+cpu", "torch_cuda": None}, False, "build for the CPU"),
        ({"torch": "2.11.0+cu130", "torch_cuda": "13.0"}, True, "built for CUDA 13.0"),
        ({}, False, "not installed"),
    ],
)
def test_torch_s_build(has: dict[str, Any], there: bool, said: str) -> None:
    (need,) = cuda_check.torch(has)
    assert (need.there, said in need.detail) == (there, True)


@pytest.mark.parametrize(("release", "there"), [("12.2", True), ("13.0", False)])
def test_jittor_s_compiler(release: str, there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_check.shutil, "which", lambda name: "/opt/nvcc")
    said = SimpleNamespace(
        stdout=f"nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release {release}, V{release}.9\n"
    )
    monkeypatch.setattr(cuda_check.subprocess, "run", lambda *_, **__: said)
    assert cuda_check.compiler().there == there


@pytest.mark.gpu
@pytest.mark.skipif(not nvml.gpus(), reason="needs a GPU: NVML finds none")
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_whole_case_on_a_card(framework: str, environment: dict[str, Environment], results: Any) -> None:
    case = Case("transformer", framework, "train", "fp32", 4, "tiny")
    record = blocks.alone(case, "s", environment[framework], Options(), results)
    assert record.status == "ok", record.reason
    assert record.provenance.gpu["before"]["name"] in nvml.gpus()
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
