"""What PyTorch's allocator is asked for on a card, from the build to the last of four steps, as
PyTorch records it itself: `python -m studies.gpu_allocator.torch_history CASE FILE`, by the Python
of the card.

`replay.py` gives the same requests to the model of the allocator.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import torch

from framebench import adapters
from framebench.suite.selectors import parse

STEPS = 4
MOST = 2_000_000  # events that are kept
ACTIONS = ("alloc", "free_requested", "segment_alloc", "segment_free")


def record(case_id: str) -> dict[str, Any]:
    """Events as (action, bytes, address); after each step the peak in use, the peak reserved, and
    the number of events.
    """
    torch.cuda.memory._record_memory_history(max_entries=MOST, stacks="python")  # type: ignore[no-untyped-call]
    adapter = adapters.load(parse(case_id))
    adapter.build()
    steps = []
    for _ in range(STEPS):
        torch.cuda.reset_peak_memory_stats()
        adapter.step()
        adapter.synchronize()
        steps.append(
            [torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(), len(_events())]
        )
    return {
        "case": case_id,
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "steps": steps,
        "events": [(event["action"], event["size"], event["addr"]) for event in _events()],
    }


def _events() -> list[dict[str, Any]]:
    """Of the device's one stream."""
    trace = torch.cuda.memory._snapshot()["device_traces"][0]
    return [event for event in trace if event["action"] in ACTIONS]


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(gzip.compress(json.dumps(record(sys.argv[1])).encode(), mtime=0))
