"""A fake GPU: what NVML says of an H200, and an adapter on it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from framebench.adapters.base import Adapter, Batch, Evidence, State
from framebench.suite.selectors import parse

GIB = 2**30


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
    functions: dict[str, Any] = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda i: ("index", i),
        "nvmlDeviceGetHandleByUUID": lambda u: ("uuid", u),
        "nvmlDeviceGetName": lambda h: "NVIDIA H200",
        "nvmlSystemGetDriverVersion": lambda: "580.1",
        "nvmlSystemGetCudaDriverVersion_v2": lambda: 13000,
        "nvmlDeviceGetMemoryInfo": lambda h: SimpleNamespace(
            total=139 * GIB, used=GIB, free=138 * GIB
        ),
        "nvmlDeviceGetClockInfo": lambda h, clock: {1: 1980, 2: 3201}[clock],
        "nvmlDeviceGetPowerManagementLimit": lambda h: 700_000,
        "nvmlDeviceGetComputeRunningProcesses": lambda h: [
            SimpleNamespace(pid=7, usedGpuMemory=3 * GIB)
        ],
        "nvmlDeviceGetTotalEnergyConsumption": lambda h: next(millijoules),
    }
    return FakeNvml(**functions)


class FakeGpuAdapter(Adapter):
    """An adapter without a model on a GPU whose stopwatch says 1.5 ms for every turn."""

    def __init__(self) -> None:
        self.case = parse("transformer/torch/eval/no_grad/b4/tiny")
        self.proofs = {}
        self.after_step = []
        self.seconds_spent = defaultdict(float)
        self.outputs_per_step = Counter()
        self.steps = 0
        self.outputs = 0
        self.restored_at = 0

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
