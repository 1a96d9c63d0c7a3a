"""A fake GPU: what NVML says of an H200, an adapter on it, and what real GPUs said elsewhere."""

from __future__ import annotations

import tomllib
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from framebench.adapters.base import Adapter
from framebench.suite.selectors import parse
from tests.callbacks import ignore

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


def make_handle(kind: str, name: int | str) -> tuple[str, int | str]:
    """Return what stands for a GPU's handle: how it was asked for."""
    return kind, name


def read_clock(handle: object, clock: int) -> int:
    """Return the MHz of a GPU's processors, or of its memory."""
    return {FakeNvml.NVML_CLOCK_SM: 1980, FakeNvml.NVML_CLOCK_MEM: 3201}[clock]


def make_h200() -> FakeNvml:
    """Return NVML with what it says of one H200, by NVIDIA's reference."""
    answers = {
        "nvmlInit": None,
        "nvmlDeviceGetCount": 1,
        "nvmlDeviceGetName": "NVIDIA H200",
        "nvmlSystemGetDriverVersion": "580.1",
        "nvmlSystemGetCudaDriverVersion_v2": 13000,
        "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=139 * GIB, used=GIB, free=138 * GIB),
        "nvmlDeviceGetPowerManagementLimit": 700_000,
        "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=7, usedGpuMemory=3 * GIB)],
    }
    library = FakeNvml(**{name: Mock(return_value=answer) for name, answer in answers.items()})
    library.nvmlDeviceGetHandleByIndex = partial(make_handle, "index")
    library.nvmlDeviceGetHandleByUUID = partial(make_handle, "uuid")
    library.nvmlDeviceGetClockInfo = read_clock
    library.nvmlDeviceGetTotalEnergyConsumption = Mock(side_effect=[1_000_000, 1_350_000])
    return library


class FakeGpuAdapter(Adapter):
    """An adapter without a model on a GPU whose stopwatch says 1.5 ms for every turn."""

    def __init__(self) -> None:
        self.case = parse("transformer/torch/eval/no_grad/b4/tiny")
        self.workload = SimpleNamespace(update_period=1)
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
        return SimpleNamespace(start=ignore, stop=ignore, seconds=Mock(return_value=0.0015))

    def versions(self) -> dict[str, str]:
        return {"torch": "2"}

    def device(self) -> str:
        return "NVIDIA H200"


FakeGpuAdapter.__abstractmethods__ = frozenset()  # no test needs the other methods
