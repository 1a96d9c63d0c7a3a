"""What a card's allocator has counted, and how long it took."""

from __future__ import annotations

from collections.abc import Mapping

import torch

# of torch.cuda.memory_stats()
PEAKS = {
    "allocator.in_use": "allocated_bytes.all.peak",
    "allocator.active": "active_bytes.all.peak",
    "allocator.reserved": "reserved_bytes.all.peak",
}
COUNTERS = {
    "requested_bytes": "requested_bytes.all.peak",  # what was asked for, before it was rounded up to blocks
    "inactive_split_bytes": "inactive_split_bytes.all.peak",  # free, but between blocks in use: fragmentation
    "allocations": "allocation.all.allocated",
    "segments": "segment.all.peak",
    "alloc_retries": "num_alloc_retries",  # cudaMalloc failed, the cache was flushed, and it was tried again
    "ooms": "num_ooms",
}


def read(keys: Mapping[str, str], where: torch.device) -> dict[str, int]:
    """Those of the caching allocator's statistics that it has; none where it is switched off and counts nothing."""
    stats = torch.cuda.memory_stats() if where.type == "cuda" else {}
    return {name: stats[key] for name, key in keys.items() if key in stats} if stats.get("allocation.all.allocated") else {}


class CudaStopwatch:
    """Two events on the current stream."""

    def __init__(self) -> None:
        self.first, self.last = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def start(self) -> None:
        self.first.record()

    def stop(self) -> None:
        self.last.record()

    def seconds(self) -> float:
        return self.first.elapsed_time(self.last) / 1e3
