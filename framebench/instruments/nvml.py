"""`device.process`: what NVML says this process holds on the GPU, sampled from outside; the CUDA context is included."""

from __future__ import annotations

import functools
import threading
from types import TracebackType


@functools.cache
def gpus() -> tuple[str, ...]:
    """Names of the NVIDIA cards that the driver shows; none where there is no driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
        return tuple(pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(i)) for i in range(pynvml.nvmlDeviceGetCount()))
    except pynvml.NVMLError:
        return ()


class ProcessPeak:
    """Samples a process's GPU memory until left; `peak` stays None where there is no GPU or no answer."""

    def __init__(self, pid: int, interval_s: float = 0.02) -> None:
        self.pid, self.interval = pid, interval_s
        self.peak: int | None = None
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def __enter__(self) -> ProcessPeak:
        self.thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.done.set()
        self.thread.join()

    def watch(self) -> None:
        import pynvml

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
            pynvml.nvmlShutdown()

    def look(self, devices: list[object]) -> None:
        import pynvml

        for device in devices:
            for process in pynvml.nvmlDeviceGetComputeRunningProcesses(device):
                if process.pid == self.pid and process.usedGpuMemory is not None:
                    self.peak = max(self.peak or 0, process.usedGpuMemory)
