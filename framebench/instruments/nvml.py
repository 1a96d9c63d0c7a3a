"""Ask NVML about the GPU that workers use, and about one process on it. No setting is changed.

`device.process` is what the process holds on the GPU, the CUDA context included. All functions give
None or nothing where there is no driver, or where the GPU or a container keeps a figure to itself.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

MIB = 2**20
JOULE = 1000  # millijoules, in which NVML counts energy
WATT = 1000  # milliwatts, in which it counts power
IDLE = 2 * 2**30  # bytes that an idle GPU has in use at most: those that the driver keeps
INTERVAL_S = 0.02  # between two samples of a process's memory
UNMOVED = 64 * MIB  # by which the bytes in use may differ between two idle moments


@functools.cache
def list_gpus() -> tuple[str, ...]:
    """Start NVML for this process, and return the names of the NVIDIA GPUs that the driver shows.

    There are none without a driver, or without nvidia-ml-py to ask it by.
    """
    try:
        import pynvml
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        return tuple(pynvml.nvmlDeviceGetName(handle) for handle in handles)
    except pynvml.NVMLError:
        return ()


def query(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a function of NVML, or None if the GPU does not support it."""
    import pynvml

    try:
        return function(*arguments)
    except pynvml.NVMLError:
        return None


def find_gpu() -> Any:
    """Return NVML's handle of the GPU that a worker gets, or None if it gets none.

    The GPU is the first of CUDA_VISIBLE_DEVICES (a number or a UUID), or else the first of all.
    """
    if not list_gpus():  # it also starts NVML
        return None
    import pynvml

    device = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    if device.isdigit():
        return query(pynvml.nvmlDeviceGetHandleByIndex, int(device))
    return query(pynvml.nvmlDeviceGetHandleByUUID, device) if device else None


def read_state() -> dict[str, Any]:
    """Return the GPU's present state, for the provenance.

    Clocks in MHz, power in W, temperature in degrees C, and how many processes are on it.
    """
    import pynvml

    handle = find_gpu()
    if handle is None:
        return {}
    memory = read_memory()
    power = query(pynvml.nvmlDeviceGetPowerUsage, handle)
    power_limit = query(pynvml.nvmlDeviceGetPowerManagementLimit, handle)
    processes = query(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
    readings = {
        "name": query(pynvml.nvmlDeviceGetName, handle),
        "driver": query(pynvml.nvmlSystemGetDriverVersion),
        "cuda_of_the_driver": read_cuda_version(),
        "memory_bytes": memory and memory.total,
        "used_bytes": memory and memory.used,
        "sm_clock_mhz": query(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM),
        "memory_clock_mhz": query(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_MEM),
        "max_sm_clock_mhz": query(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_SM),
        "power_w": power and power / WATT,
        "power_limit_w": power_limit and power_limit / WATT,
        "temperature_c": query(
            pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU
        ),
        "processes": None if processes is None else len(processes),
    }
    return {name: value for name, value in readings.items() if value is not None}


def read_cuda_version() -> str | None:
    """Return the newest CUDA that the driver can serve, such as `13.0`, or None if unknown."""
    import pynvml

    number = query(pynvml.nvmlSystemGetCudaDriverVersion_v2)  # 13000 for 13.0
    if number is None:
        return None
    return f"{number // 1000}.{number % 1000 // 10}"


def read_energy() -> float | None:
    """Return the joules that the whole GPU has taken since its driver was loaded.

    Returns None without a GPU, or with one older than Volta, which does not count them.
    """
    import pynvml

    handle = find_gpu()
    if handle is None:
        return None
    millijoules = query(pynvml.nvmlDeviceGetTotalEnergyConsumption, handle)
    if millijoules is None:
        return None
    return float(millijoules) / JOULE


class GpuMemory(NamedTuple):
    """The memory of the whole GPU in bytes."""

    total: int
    used: int  # by all processes together


def read_memory() -> GpuMemory | None:
    """Return the memory of the GPU that a worker gets, or None without a GPU or an answer."""
    handle = find_gpu()
    if handle is None:
        return None
    import pynvml  # a worker's environment may lack it

    memory = query(pynvml.nvmlDeviceGetMemoryInfo, handle)
    return GpuMemory(int(memory.total), int(memory.used)) if memory else None


def read_used_by(pid: int) -> int | None:
    """Return the bytes of the GPU's memory that a process uses, or None if NVML does not tell."""
    import pynvml

    handle = find_gpu()
    if handle is None:
        return None
    for process in query(pynvml.nvmlDeviceGetComputeRunningProcesses, handle) or ():
        if process.pid == pid:
            used_bytes: int | None = process.usedGpuMemory
            return used_bytes
    return None


class ProcessPeak:
    """Samples a process's GPU memory in a context.

    `peak` stays None if there is no GPU or no answer, and `note` says why. Where NVML hides the
    process, `growth` may say instead by how much the use of the whole GPU rose.
    """

    def __init__(self, pid: int, used_before: int | None = None) -> None:
        """Prepare to watch a process; a thread takes samples while the context is open.

        `used_before` is what the GPU had in use before the process began, in bytes. Without it
        there is no `growth`. Nothing else may be started on the GPU meanwhile.
        """
        self.pid = pid
        self.used_before = used_before
        self.peak: int | None = None
        self.used_after: int | None = None  # in use on the GPU at the end
        self.most_used: int | None = None  # the most in use on the GPU
        self.is_listed = False  # whether NVML listed the process itself
        self.most_listed: int | None = None  # the most processes that were listed at once
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def __enter__(self) -> ProcessPeak:
        """Start the thread that takes samples."""
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop the thread, and read what the GPU has in use now."""
        self.done.set()
        self.thread.join()
        if self.used_before is not None:
            memory = read_memory()
            self.used_after = memory.used if memory else None

    def watch(self) -> None:
        """Sample until the context is left."""
        if not list_gpus():
            return
        import pynvml

        # a container may hide processes; then `peak` stays None
        with contextlib.suppress(pynvml.NVMLError):
            handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
            devices = list(handles)
            while not self.done.wait(INTERVAL_S):
                self.take_sample(devices)

    def take_sample(self, devices: list[object]) -> None:
        """Read the used bytes of the process's GPU, and this process's bytes on each of `devices`.

        The largest values so far are stored.
        """
        import pynvml

        if self.used_before is not None:
            memory = read_memory()
            if memory:
                self.most_used = max(self.most_used or 0, memory.used)
        for device in devices:
            running = query(pynvml.nvmlDeviceGetComputeRunningProcesses, device) or []
            self.most_listed = max(self.most_listed or 0, len(running))
            for process in running:
                if process.pid != self.pid:
                    continue
                self.is_listed = True
                if process.usedGpuMemory is not None:
                    self.peak = max(self.peak or 0, process.usedGpuMemory)

    @property
    def growth(self) -> int | None:
        """Return the bytes by which the whole GPU's use rose, if only this process can be why.

        Returns None if `peak` is known, if `used_before` was not given, or if the GPU was not idle
        before the context and after it.
        """
        if self.peak is not None or self.used_before is None:
            return None
        if self.most_used is None or self.used_after is None:
            return None
        is_idle_before = self.used_before <= IDLE
        is_idle_after = abs(self.used_after - self.used_before) <= UNMOVED
        risen = self.most_used - self.used_before
        return risen if is_idle_before and is_idle_after and risen > 0 else None

    @property
    def note(self) -> str | None:
        """Return why there is no `device.process` though there is a GPU, or None."""
        if self.peak is not None or not list_gpus():
            return None
        reason = "NVML lists no processes here: a container that hides them, or nothing ran there"
        if self.is_listed:
            reason = "NVML lists the process, but does not tell its memory"
        elif self.most_listed:
            reason = (
                f"NVML lists {self.most_listed} process(es), none under this number: "
                "a container with process numbers of its own?"
            )
        if self.growth is not None:
            reason += "; device.card is by how much the whole GPU's use rose"
        return reason
