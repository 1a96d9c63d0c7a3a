"""A simulation for PyTorch's memory viewer, https://pytorch.org/memory_viz. Standard library only."""

from __future__ import annotations

from typing import Any

from framebench.devices.simulation.allocator import Allocator


def snapshot(allocator: Allocator, labels: dict[int, str]) -> dict[str, Any]:
    """What `torch.cuda.memory._snapshot` returns: segments with their blocks, and the trace."""
    segments: list[dict[str, Any]] = [
        {
            "device": 0, "address": blocks[0].address, "total_size": sum(b.size for b in blocks), "stream": 0,
            "allocated_size": sum(b.size for b in blocks if b.allocated),
            "active_size": sum(b.size for b in blocks if b.allocated),
            "requested_size": sum(b.requested for b in blocks if b.allocated),
            "segment_type": "small" if blocks[0].pool.small else "large", "segment_pool_id": (0, 0),
            "is_expandable": blocks[0].expandable, "frames": [],
            "blocks": [
                {"address": b.address, "size": b.size, "requested_size": b.requested, "frames": [],
                 "state": "active_allocated" if b.allocated else "inactive"} for b in blocks
            ],
        } for blocks in allocator.segments()
    ]  # fmt: skip
    label, entries = "", []
    for place, event in enumerate(allocator.trace):
        label = labels.get(place, label)
        frames = [{"filename": "", "line": 0, "name": label}] if event.action == "alloc" else []
        told = {"action": event.action, "addr": event.address, "size": event.size, "frames": frames}
        entries.append(told | {"stream": 0, "time_us": place})
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": allocator.settings.expandable_segments}
    return {"segments": segments, "device_traces": [entries], "allocator_settings": settings}
