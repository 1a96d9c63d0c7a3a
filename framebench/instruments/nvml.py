"""What NVML tells from outside about the card that workers use, and one process on it. It only asks; no setting is changed.

`device.process` is what the process holds on the card, the CUDA context included. All functions give None or nothing where
there is no driver, or where the card or a container keeps a figure to itself.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

MIB = 2**20
JOULE = 1000  # millijoules, in which NVML counts energy
WATT = 1000  # milliwatts, in which it counts power
IDLE = 2 * 2**30  # bytes: more the driver does not keep to itself on an idle card
UNMOVED = 64 * MIB  # by so little its use may differ between two idle moments


@functools.cache
def gpus() -> tuple[str, ...]:
    """Names of the NVIDIA cards that the driver shows; none where there is no driver, or no nvidia-ml-py to ask it by."""
    try:
        import pynvml
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
        return tuple(pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(i)) for i in range(pynvml.nvmlDeviceGetCount()))
    except pynvml.NVMLError:
        return ()


def asked(function: Callable[..., Any], *arguments: Any) -> Any:
    """The answer, or None where the card does not have it or may not tell it."""
    import pynvml

    try:
        return function(*arguments)
    except pynvml.NVMLError:
        return None


def card() -> Any:
    """Handle of the card that a worker gets: the first of CUDA_VISIBLE_DEVICES (a number or a UUID), else the first of all.
    Call after `gpus`, which starts NVML."""
    import pynvml

    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    if first.isdigit():
        return asked(pynvml.nvmlDeviceGetHandleByIndex, int(first))
    return asked(pynvml.nvmlDeviceGetHandleByUUID, first) if first else None


def state() -> dict[str, Any]:
    """The card as it is now, for the provenance: clocks in MHz, power in W, temperature in degrees C, and who else is on it."""
    import pynvml

    handle = card() if gpus() else None
    if handle is None:
        return {}
    memory = asked(pynvml.nvmlDeviceGetMemoryInfo, handle)
    power, limit = (asked(f, handle) for f in (pynvml.nvmlDeviceGetPowerUsage, pynvml.nvmlDeviceGetPowerManagementLimit))
    others = asked(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
    readings = {
        "name": asked(pynvml.nvmlDeviceGetName, handle),
        "driver": asked(pynvml.nvmlSystemGetDriverVersion),
        "cuda_of_the_driver": cuda_version(),
        "memory_bytes": memory and int(memory.total),
        "used_bytes": memory and int(memory.used),
        "sm_clock_mhz": asked(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM),
        "memory_clock_mhz": asked(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_MEM),
        "max_sm_clock_mhz": asked(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_SM),
        "power_w": power and power / WATT,
        "power_limit_w": limit and limit / WATT,
        "temperature_c": asked(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
        "processes": None if others is None else len(others),
    }
    return {name: value for name, value in readings.items() if value is not None}


def cuda_version() -> str | None:
    """`13.0`: the newest CUDA that the driver can serve."""
    import pynvml

    number = asked(pynvml.nvmlSystemGetCudaDriverVersion_v2)
    return None if number is None else f"{number // 1000}.{number % 1000 // 10}"


def energy() -> float | None:
    """Joules that the whole card has taken since its driver was loaded; from Volta on."""
    import pynvml

    handle = card() if gpus() else None
    spent = None if handle is None else asked(pynvml.nvmlDeviceGetTotalEnergyConsumption, handle)
    return None if spent is None else spent / JOULE


def used() -> int | None:
    """Bytes of the card that are taken, by whomever."""
    return state().get("used_bytes")


def used_by(pid: int) -> int | None:
    """Bytes of the card that the process holds, where it is listed with them."""
    import pynvml

    handle = card() if gpus() else None
    listed = asked(pynvml.nvmlDeviceGetComputeRunningProcesses, handle) if handle is not None else None
    return next((process.usedGpuMemory for process in listed or () if process.pid == pid), None)


class ProcessPeak:
    """Samples a process's GPU memory until left. `peak` stays None where there is no GPU or no answer, and `note` says why.

    `before`: what the card had in use before the process began, if nothing else is started meanwhile. Where processes are
    hidden, `risen` then says by how much that rose, if the card was idle before, and was so again at the end.
    """

    def __init__(self, pid: int, before: int | None = None, interval_s: float = 0.02) -> None:
        self.pid, self.interval, self.before = pid, interval_s, before
        self.peak: int | None = None
        self.most: int | None = None  # in use on the card
        self.seen = False  # the process itself was listed
        self.listed: int | None = None  # the most processes that were listed at once
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def __enter__(self) -> ProcessPeak:
        self.thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.done.set()
        self.thread.join()
        self.after = used() if self.before is not None else None

    def watch(self) -> None:
        try:
            import pynvml
        except ImportError:
            return
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError:
            return  # no driver: the instrument does not exist here
        try:
            devices = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
            while not self.done.wait(self.interval):
                self.look(devices)
        except pynvml.NVMLError:
            return  # a container may hide processes; then nothing was seen and `peak` stays None
        finally:
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()

    def look(self, devices: list[object]) -> None:
        import pynvml

        if self.before is not None and (memory := asked(pynvml.nvmlDeviceGetMemoryInfo, card())):
            self.most = max(self.most or 0, int(memory.used))
        for device in devices:
            running = asked(pynvml.nvmlDeviceGetComputeRunningProcesses, device) or []
            self.listed = max(self.listed or 0, len(running))
            for process in running:
                self.seen = self.seen or process.pid == self.pid
                if process.pid == self.pid and process.usedGpuMemory is not None:
                    self.peak = max(self.peak or 0, process.usedGpuMemory)

    @property
    def risen(self) -> int | None:
        """Bytes. A card that others use, or did before or after, says nothing."""
        if self.peak is not None or self.before is None or self.most is None or self.after is None:
            return None
        idle = self.before <= IDLE and abs(self.after - self.before) <= UNMOVED
        return self.most - self.before if idle and self.most > self.before else None

    @property
    def note(self) -> str | None:
        """Why there is no `device.process` though there is a card."""
        if self.peak is not None or not gpus():
            return None
        instead = "; device.card is by how much the whole card's use rose" if self.risen is not None else ""
        if self.seen:
            return f"NVML lists the process, but does not tell its memory{instead}"
        if self.listed:
            return (
                f"NVML lists {self.listed} process(es), none under this number: a container with process numbers of its own?"
                f"{instead}"
            )
        return f"NVML lists no processes here: a container that hides them, or nothing ran on the card{instead}"
