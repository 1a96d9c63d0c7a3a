"""A fake GPU: what NVML says of an H200, an adapter on it, and what real GPUs said elsewhere."""

from __future__ import annotations

import tomllib
from collections import Counter, defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from framebench.adapters.base import Adapter
from framebench.suite.selectors import parse

GIB = 2**30
RECORDED: dict[str, Any] = tomllib.loads((Path(__file__).parent / "recorded.toml").read_text())


class NotSupported(Exception):
    """Stands for pynvml.NVMLError_NotSupported, a subclass of NVMLError."""


def refuse(*_: Any) -> None:
    """Fail as a function of NVML that the GPU does not support."""
    raise NotSupported("Not Supported")


class FakeNvml(SimpleNamespace):
    """NVML with the functions that are given; all others are not supported."""

    NVMLError = NotSupported
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __getattr__(self, name: str) -> Any:
        return refuse


def h200() -> FakeNvml:
    """Return what NVML says of one H200, by NVIDIA's reference."""
    millijoules = iter([1_000_000, 1_350_000])
    memory = SimpleNamespace(total=139 * GIB, used=GIB, free=138 * GIB)
    process = SimpleNamespace(pid=7, usedGpuMemory=3 * GIB)
    return FakeNvml(
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda i: ("index", i),
        nvmlDeviceGetHandleByUUID=lambda u: ("uuid", u),
        nvmlDeviceGetName=lambda h: "NVIDIA H200",
        nvmlSystemGetDriverVersion=lambda: "580.1",
        nvmlSystemGetCudaDriverVersion_v2=lambda: 13000,
        nvmlDeviceGetMemoryInfo=lambda h: memory,
        nvmlDeviceGetClockInfo=lambda h, clock: {1: 1980, 2: 3201}[clock],
        nvmlDeviceGetPowerManagementLimit=lambda h: 700_000,
        nvmlDeviceGetComputeRunningProcesses=lambda h: [process],
        nvmlDeviceGetTotalEnergyConsumption=lambda h: next(millijoules),
    )


class FakeGpuAdapter(Adapter):
    """An adapter without a model on a GPU whose stopwatch says 1.5 ms for every turn."""

    def __init__(self) -> None:
        self.case = parse("transformer/torch/eval/no_grad/b4/tiny")
        self.proofs = {}
        self.after_step = []
        self.seconds_spent = defaultdict(float)
        self.outputs_per_step = Counter()
        self.steps = 0
        self.restored_at = 0

    def one_step(self) -> None: ...
    def synchronize(self) -> None: ...
    def observe(self) -> dict[str, Any]:
        return {}

    def loss(self) -> float:
        return 1.0

    def live_bytes(self) -> int:
        return 3

    def read_peaks(self) -> dict[str, int]:
        return {"allocator.in_use": 5, "compiler.plan": 4}

    def read_counters(self) -> dict[str, int]:
        return {"ooms": 0}

    def make_stopwatch(self) -> Any:
        return SimpleNamespace(start=lambda: None, stop=lambda: None, seconds=lambda: 0.0015)

    def versions(self) -> dict[str, str]:
        return {"torch": "2"}

    def device(self) -> str:
        return "NVIDIA H200"


FakeGpuAdapter.__abstractmethods__ = frozenset()  # no test needs the other methods
