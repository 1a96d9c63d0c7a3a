"""A simulation for PyTorch's memory viewer, https://pytorch.org/memory_viz.

Standard library only.
"""

from __future__ import annotations

from typing import Any

from framebench.devices.simulation.allocator import Allocator
from framebench.devices.simulation.blocks import Block


def make_snapshot(allocator: Allocator, labels: dict[int, str]) -> dict[str, Any]:
    """Return what `torch.cuda.memory._snapshot` returns: segments with their blocks, and the trace.

    Args:
        allocator: The simulated allocator, whose trace lists each allocation and release.
        labels: What each allocation was for, by its place in the trace.
    """
    entries = []
    for place, event in enumerate(allocator.trace):
        frames = []
        if place in labels:
            frames = [{"filename": "", "line": 0, "name": labels[place]}]
        entry = {
            "action": event.action,
            "addr": event.address,
            "size": event.size,
            "frames": frames,
            "stream": 0,
            "time_us": place,
        }
        entries.append(entry)
    return {
        "segments": [describe_segment(blocks) for blocks in allocator.segments()],
        "device_traces": [entries],
        "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": "",
            "expandable_segments": allocator.settings.expandable_segments,
        },
    }


def describe_segment(blocks: list[Block]) -> dict[str, Any]:
    """Return one segment in the words of PyTorch's snapshot."""
    allocated = [block for block in blocks if block.allocated]
    allocated_size = sum(block.size for block in allocated)
    return {
        "device": 0,
        "address": blocks[0].address,
        "total_size": sum(block.size for block in blocks),
        "stream": 0,
        "allocated_size": allocated_size,
        "active_size": allocated_size,
        "requested_size": sum(block.requested for block in allocated),
        "segment_type": "small" if blocks[0].pool.small else "large",
        "segment_pool_id": (0, 0),
        "is_expandable": blocks[0].expandable,
        "frames": [],
        "blocks": [describe_block(block) for block in blocks],
    }


def describe_block(block: Block) -> dict[str, Any]:
    """Return one block in the words of PyTorch's snapshot."""
    return {
        "address": block.address,
        "size": block.size,
        "requested_size": block.requested,
        "frames": [],
        "state": "active_allocated" if block.allocated else "inactive",
    }
