"""Read the counters of CUDA's caching allocator, and the time on the device."""

from __future__ import annotations

from collections.abc import Mapping

import torch

# our names, and those of torch.cuda.memory_stats()
PEAKS = {
    "allocator.in_use": "allocated_bytes.all.peak",
    # adds blocks that were freed, but that a stream may still use
    "allocator.active": "active_bytes.all.peak",
    "allocator.reserved": "reserved_bytes.all.peak",
}
COUNTERS = {
    # what was requested, before it was rounded up to blocks
    "requested_bytes": "requested_bytes.all.peak",
    # free, but between blocks in use: fragmentation
    "inactive_split_bytes": "inactive_split_bytes.all.peak",
    "allocations": "allocation.all.allocated",
    "segments": "segment.all.peak",
    # cudaMalloc failed, the cache was flushed, and it was tried again
    "alloc_retries": "num_alloc_retries",
    "ooms": "num_ooms",
}


def read_statistics(keys: Mapping[str, str], device: torch.device) -> dict[str, int]:
    """Return those of the caching allocator's statistics that it has.

    There are none on a CPU, and none of an allocator that is switched off, which counts nothing.
    """
    if device.type != "cuda":
        return {}
    stats = torch.cuda.memory_stats()
    if not stats.get("allocation.all.allocated"):
        return {}
    return {name: stats[key] for name, key in keys.items() if key in stats}


class CudaStopwatch:
    """Two events on the current stream."""

    def __init__(self) -> None:
        self.first = torch.cuda.Event(enable_timing=True)
        self.last = torch.cuda.Event(enable_timing=True)

    def start(self) -> None:
        self.first.record()

    def stop(self) -> None:
        self.last.record()

    def seconds(self) -> float:
        return self.first.elapsed_time(self.last) / 1e3
