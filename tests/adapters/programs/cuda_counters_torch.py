"""`STATISTICS`: print what the adapter counts on a CPU, and on a GPU with these statistics."""

import json
import sys
from unittest.mock import Mock

import torch

from framebench import adapters
from framebench.adapters.torch import scenarios
from framebench.instruments import limits
from framebench.suite.selectors import parse

recorded = json.loads(sys.argv[1])
adapter = adapters.load(parse("transformer/torch/train/fp32/b4/tiny"))
on_cpu = [adapter.read_peaks(), adapter.read_counters(), adapter.make_stopwatch() is None]
adapter.torch_device = torch.device("cuda")
torch.cuda.memory_stats = Mock(return_value=recorded)
pooled = [adapter.read_peaks(), adapter.read_counters()]
torch.cuda.memory_stats = Mock(return_value=dict.fromkeys(recorded, 0))
unpooled = [adapter.read_peaks(), adapter.read_counters()]


class Event:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.recorded = True

    def elapsed_time(self, other):
        return 12.5


torch.cuda.Event = Event
events = adapter.make_stopwatch()
events.start()
events.stop()
oom = limits.is_out_of_memory(torch.cuda.OutOfMemoryError("CUDA out of memory."), False)
overlap = [
    scenarios.compute_overlap([(0, 4), (10, 12)], [(1, 3), (3, 11)]),
    scenarios.compute_overlap([], [(0, 1)]),
]
print(json.dumps([on_cpu, pooled, unpooled, events.seconds(), oom, overlap]))
