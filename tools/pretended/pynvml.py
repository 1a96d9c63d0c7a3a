"""Answer what framebench asks NVML as an idle 80 GiB GPU would: for rehearsals without one.

It stands before the real package on the path of `tools/gpu.sh --rehearse`, so that everything the
parent does where there is a GPU is done. Workers do not see it: their frameworks find no device.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

NAME = "a rehearsal, no GPU"
NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0


class NVMLError(Exception):
    """What a GPU that does not have a figure raises."""


def __getattr__(name: str) -> Any:
    """Everything else is not supported."""
    if not name.startswith("nvml"):
        raise AttributeError(name)

    def refuse(*_: object) -> None:
        raise NVMLError("Not Supported")

    return refuse


def nvmlInit() -> None: ...


def nvmlShutdown() -> None: ...


def nvmlDeviceGetCount() -> int:
    return 1


def nvmlDeviceGetHandleByIndex(index: int) -> int:
    return index


def nvmlDeviceGetName(handle: int) -> str:
    return NAME


def nvmlDeviceGetMemoryInfo(handle: int) -> SimpleNamespace:
    return SimpleNamespace(total=80 * 2**30, used=2**29, free=80 * 2**30 - 2**29)


def nvmlDeviceGetComputeRunningProcesses(handle: int) -> list[SimpleNamespace]:
    return []
